#include "schedule/lower.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "golden.h"
#include "replay.h"
#include "schedule/assign.h"
#include "schedule/generators.h"
#include "schedule/prove.h"
#include "schedule/simulate.h"

namespace escalier::schedule {
namespace {

// Every kind in every size that it takes; those with several chunks on half of the ranks.
std::vector<Schedule> generated(int most_ranks, int most_micro_batches) {
    std::vector<Schedule> all;
    for (const Kind& kind : kinds()) {
        for (int pp = 1; pp <= most_ranks / kind.default_chunks; ++pp) {
            for (int micro_batches = 1; micro_batches <= most_micro_batches; ++micro_batches) {
                GenerateOptions options{std::string(kind.name), pp, kind.default_chunks, micro_batches};
                if (!size_problem(kind, options).empty()) continue;
                all.push_back(generate(options));
                options.backward = BackwardOrder::lifo;
                if (kind.has_lifo) all.push_back(generate(options));
            }
        }
    }
    return all;
}

std::string name_of(const Schedule& schedule) {
    return schedule.kind + " P" + std::to_string(schedule.pp) + " V" + std::to_string(schedule.chunks) +
           " M" + std::to_string(schedule.micro_batches);
}

void expect_clean_replay(const Schedule& schedule) {
    const std::vector<Program> programs = lower(schedule);
    for (std::uint32_t seed = 1; seed <= 3; ++seed) {
        const ReplayResult result = replay(schedule, programs, {false, seed});
        EXPECT_EQ(result.fault, "") << name_of(schedule);
        EXPECT_TRUE(result.completed) << name_of(schedule);
    }
}

bool is_receive(const Instruction& instruction) {
    return instruction.kind == InstructionKind::receive_activation ||
           instruction.kind == InstructionKind::receive_gradient;
}

const StageBuffers& buffers_of(const std::vector<Program>& programs, int rank) {
    return programs[static_cast<std::size_t>(rank)].chunks.front();
}

TEST(Lower, NoBufferIsTakenWhileLiveAndEveryReadFindsItsContent) {
    for (const Schedule& schedule : generated(6, 9)) expect_clean_replay(schedule);
    for (const std::string& file : order_files("")) expect_clean_replay(read_order(file));
}

TEST(Lower, ForwardOnlyProgramsRunToo) {
    for (const Schedule& schedule : generated(4, 6)) expect_clean_replay(forward_only(schedule));
    for (const std::string& file : order_files("")) {
        const Schedule forward = forward_only(read_order(file));
        expect_clean_replay(forward);
        for (const Program& program : lower(forward))
            for (const StageBuffers& chunk : program.chunks) EXPECT_EQ(chunk.linear_input_slots, 1);
    }
}

// More than the executor asks, whose computes wait for no send. Round a ring of several chunks the buffers do
// not suffice for it.
TEST(Lower, OneChunkCompletesEvenWhenSendsBlock) {
    for (const Schedule& schedule : generated(6, 9)) {
        if (schedule.chunks > 1) continue;
        const ReplayResult result = replay(schedule, lower(schedule), {true, 1});
        EXPECT_TRUE(result.completed && result.fault.empty()) << name_of(schedule) << " " << result.fault;
    }
}

// The watcher itself: a program with one wrong index must not pass.
TEST(Lower, ReplayNoticesEveryTamperedIndex) {
    const Schedule schedule = read_order("zbh1_P3_V1_M7.csv");
    const std::vector<Program> programs = lower(schedule);
    int tampered = 0;
    for (std::size_t i = 0; i < programs[1].instructions.size(); ++i) {
        for (int Binding::*field :
             {&Binding::input, &Binding::output, &Binding::output_gradient, &Binding::input_gradient,
              &Binding::forward_slot, &Binding::linear_input_slot, &Binding::output_gradient_slot}) {
            const Action& action = programs[1].instructions[i].action;
            if (programs[1].instructions[i].kind != InstructionKind::compute) continue;
            if (programs[1].instructions[i].binding.*field < 0) continue;
            std::vector<Program> wrong = programs;
            wrong[1].instructions[i].binding.*field += 1;
            const ReplayResult result = replay(schedule, wrong);
            EXPECT_TRUE(!result.completed || !result.fault.empty()) << cell(action);
            ++tampered;
        }
    }
    EXPECT_GT(tampered, 60);
    std::vector<Program> unreduced = programs;
    std::erase_if(unreduced[0].instructions,
                  [](const Instruction& i) { return i.kind == InstructionKind::reduce_gradients; });
    EXPECT_NE(replay(schedule, unreduced).fault, "");
}

TEST(Lower, BuffersNeverSlowTheSimulator) {
    struct Cost {
        double f, i, w, comm;
    };
    const Cost costs[] = {{1, 1, 1, 0}, {1, 1.2, 0.7, 0.05}, {2, 1.9, 1.1, 0.4}, {1, 2, 1, 0.9}};
    std::vector<Schedule> all = generated(8, 20);
    for (const std::string& file : order_files("")) all.push_back(read_order(file));
    for (const Schedule& schedule : all) {
        const std::vector<Program> programs = lower(schedule);
        for (const Cost& cost : costs) {
            const auto durations = Durations::uniform(schedule.stages(), cost.f, cost.i, cost.w, cost.comm);
            EXPECT_NEAR(simulate(schedule, programs, durations).makespan,
                        simulate(schedule, durations).makespan, 1e-9)
                << name_of(schedule) << " comm " << cost.comm;
        }
    }
}

TEST(Lower, RingsAndSlotsHaveTheirPublishedSizes) {
    for (int pp = 2; pp <= 6; ++pp) {
        for (int m = 1; m <= 9; ++m) {
            const auto gpipe = lower(generate({"gpipe", pp, 1, m}));
            const auto one_one = lower(generate({"1f1b", pp, 1, m}));
            for (int rank = 0; rank < pp; ++rank) {
                const StageBuffers& a = buffers_of(gpipe, rank);
                const StageBuffers& b = buffers_of(one_one, rank);
                const bool first = rank == 0, last = rank == pp - 1;
                EXPECT_EQ(a.inputs, first ? 0 : m);
                EXPECT_EQ(b.inputs, first ? 0 : std::min(m, pp - rank + 1));
                EXPECT_EQ(a.forward_slots, m);
                EXPECT_EQ(b.forward_slots, std::min(m, pp - rank));
                for (const StageBuffers& stage : {a, b}) {
                    EXPECT_EQ(stage.outputs, last ? 0 : std::min(m, 2));
                    EXPECT_EQ(stage.output_gradients, last ? 0 : std::min(m, 2));
                    EXPECT_EQ(stage.input_gradients, first ? 0 : std::min(m, 2));
                    EXPECT_EQ(stage.linear_input_slots, stage.forward_slots);
                    EXPECT_EQ(stage.output_gradient_slots, 1);
                }
            }
        }
    }
    // ZB-H1 frees what I needs early: rank r holds P - r of those and r more of what W needs.
    const auto zero_bubble = lower(read_order("zbh1_P4_V1_M8.csv"));
    for (int rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(buffers_of(zero_bubble, rank).forward_slots, 4 - rank);
        EXPECT_EQ(buffers_of(zero_bubble, rank).linear_input_slots, 4);
        EXPECT_EQ(buffers_of(zero_bubble, rank).output_gradient_slots, rank + 1);
    }
}

TEST(Lower, ReceivesArePostedBeforeTheComputeThatPrecedesTheirUse) {
    std::vector<Schedule> all = generated(5, 8);
    for (const std::string& file : order_files("")) all.push_back(read_order(file));
    for (const Schedule& schedule : all) {
        for (const Program& program : lower(schedule)) {
            std::vector<std::vector<std::size_t>> posted(
                2 * static_cast<std::size_t>(schedule.stages()),
                std::vector<std::size_t>(static_cast<std::size_t>(schedule.micro_batches)));
            std::size_t computes = 0;  // done so far
            for (const Instruction& i : program.instructions) {
                const Action& a = i.action;
                const bool gradient = a.kind != ActionKind::F;
                auto& when = posted[2 * static_cast<std::size_t>(a.stage) + gradient]
                                   [static_cast<std::size_t>(a.micro_batch)];
                if (is_receive(i)) when = computes + 1;
                if (i.kind != InstructionKind::compute) continue;
                if (when > 1 && a.kind != ActionKind::W) {
                    EXPECT_LT(when, computes + 1) << name_of(schedule) << " " << cell(a);
                }
                ++computes;
            }
        }
    }
}

TEST(Lower, SendsFollowTheirComputeAndReductionsTheLastWeightGradient) {
    for (const std::string& file : order_files("")) {
        const Schedule schedule = read_order(file);
        for (const Program& program : lower(schedule)) {
            std::vector<int> weight_actions(static_cast<std::size_t>(schedule.chunks));
            const Instruction* compute = nullptr;  // that a send may follow
            const Instruction* partner = nullptr;  // the first of the pair whose second is `compute`
            for (const Instruction& i : program.instructions) {
                EXPECT_EQ(program.chunks[static_cast<std::size_t>(i.chunk)].stage, i.action.stage);
                if (i.kind == InstructionKind::compute) {
                    partner = compute != nullptr && compute->action.overlaps_next ? compute : nullptr;
                    compute = &i;
                    const bool weight = i.action.kind == ActionKind::W || i.action.kind == ActionKind::B;
                    weight_actions[static_cast<std::size_t>(i.chunk)] += weight;
                } else if (!is_receive(i)) {
                    ASSERT_NE(compute, nullptr);
                    const bool follows_partner = partner != nullptr && i.action == partner->action;
                    const Instruction& done = follows_partner ? *partner : *compute;
                    EXPECT_EQ(i.action, done.action) << file;
                    if (i.kind == InstructionKind::send_activation) {
                        EXPECT_EQ(i.buffer, done.binding.output);
                    }
                    if (i.kind == InstructionKind::send_gradient) {
                        EXPECT_EQ(i.buffer, done.binding.input_gradient);
                    }
                }
                if (i.kind == InstructionKind::reduce_gradients) {
                    EXPECT_EQ(weight_actions[static_cast<std::size_t>(i.chunk)],
                              schedule.micro_batches / schedule.copies());
                }
            }
        }
    }
}

TEST(Lower, StagesOfOneRankHandOverLocally) {
    const Program turn = lower(read_order("zbv_P3_V2_M7.csv"))[2];  // stages 2 and 3
    ASSERT_EQ(turn.chunks.size(), 2u);
    EXPECT_EQ(turn.chunks[0].next_chunk, 1);
    EXPECT_EQ(turn.chunks[1].previous_chunk, 0);
    EXPECT_EQ(turn.chunks[0].outputs, 0);
    EXPECT_EQ(turn.chunks[1].input_gradients, 0);
    EXPECT_GT(turn.chunks[1].inputs, 0);
    EXPECT_GT(turn.chunks[0].output_gradients, 0);
    for (const Instruction& i : turn.instructions) {
        if (i.kind == InstructionKind::receive_activation) {
            EXPECT_EQ(i.action.stage, 2);
        }
        if (i.kind == InstructionKind::send_activation) {
            EXPECT_EQ(i.action.stage, 3);
        }
        if (i.kind != InstructionKind::compute || i.action.kind == ActionKind::W) continue;
        const bool forward = i.action.kind == ActionKind::F;
        EXPECT_EQ(i.binding.output_is_next_input, forward && i.action.stage == 2);
        EXPECT_EQ(i.binding.input_gradient_is_previous, !forward && i.action.stage == 3);
    }
    const std::vector<Program> alone = lower(read_order("interleaved_P1_V3_M4.csv"));
    for (const Instruction& i : alone[0].instructions)
        EXPECT_TRUE(i.kind == InstructionKind::compute || i.kind == InstructionKind::reduce_gradients);
}

// Rank 0 runs all forwards first, rank 1 one in turn: with the least rings the two would block one another.
TEST(Lower, RingsGrowWhereASenderRunsFarAhead) {
    Schedule mixed = generate({"gpipe", 2, 1, 16});
    mixed.ranks[1] = generate({"1f1b", 2, 1, 16}).ranks[1];
    const auto starved = assign(mixed, least_ring_sizes(mixed));
    EXPECT_FALSE(replay(mixed, starved).completed);
    EXPECT_THROW(prove(mixed, starved), ConfigError);
    expect_clean_replay(mixed);
    EXPECT_NO_THROW(prove(mixed));
    const auto programs = lower(mixed);
    EXPECT_NEAR(simulate(mixed, programs, Durations::uniform(2, 1, 1, 1, 0)).makespan,
                simulate(mixed, Durations::uniform(2, 1, 1, 1, 0)).makespan, 1e-9);
}

TEST(Lower, ManyRanksAndMicroBatches) {
    const Schedule schedule = generate({"1f1b", 64, 1, 256});
    const auto programs = lower(schedule);
    EXPECT_EQ(buffers_of(programs, 1).inputs, 64);
    EXPECT_EQ(prove(schedule, programs).messages, 2 * 63 * 256);
}

TEST(Lower, AnIncompleteScheduleIsRefused) {
    Schedule schedule = generate({"1f1b", 2, 1, 2});
    schedule.ranks[0].pop_back();
    EXPECT_THROW(lower(schedule), ConfigError);
}

}  // namespace
}  // namespace escalier::schedule
