#include "schedule/share_slots.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "schedule/generators.h"
#include "schedule/lower.h"
#include "schedule/prove.h"

namespace escalier::schedule {
namespace {

std::vector<Schedule> all_kinds(int pp, int micro_batches) {
    std::vector<Schedule> schedules;
    for (const Kind& kind : kinds())
        for (const int chunks : {1, 2, 3}) {
            const GenerateOptions options{
                .kind = std::string(kind.name), .pp = pp, .chunks = chunks, .micro_batches = micro_batches};
            if (!kind.has_costs && size_problem(kind, options).empty())
                schedules.push_back(generate(options));
        }
    return schedules;
}

// With one group per rank the slots are the proved peaks, whatever the schedule: not one more.
TEST(ShareSlots, GivesExactlyTheProvedPeaks) {
    for (const int pp : {1, 2, 4, 8})
        for (const int micro_batches : {1, 3, 8, 24})
            for (const Schedule& schedule : all_kinds(pp, micro_batches)) {
                std::vector<Program> programs = lower(schedule);
                const Proof proof = prove(schedule, programs);
                for (std::size_t rank = 0; rank < programs.size(); ++rank) {
                    share_slots(programs[rank], std::vector<int>(programs[rank].chunks.size(), 0));
                    for (const StageBuffers& chunk : programs[rank].chunks) {
                        EXPECT_EQ(chunk.linear_input_slots, proof.peak_until_weight[rank])
                            << schedule.kind << " P=" << pp << " M=" << micro_batches << " rank " << rank;
                        EXPECT_EQ(chunk.forward_slots, proof.peak_until_input[rank])
                            << schedule.kind << " P=" << pp << " M=" << micro_batches << " rank " << rank;
                    }
                }
            }
}

using Slot = std::pair<int, int>;  // class, number

// Walks a program and refuses a slot that is taken while another micro-batch or stage holds it.
void expect_no_clash(const Program& program, const std::vector<int>& groups) {
    std::map<std::pair<int, Slot>, std::pair<int, int>> holders;
    const auto take = [&](const Instruction& i, int kind, int number) {
        ASSERT_GE(number, 0) << cell(i.action);
        const auto key = std::make_pair(groups[static_cast<std::size_t>(i.chunk)], Slot{kind, number});
        const auto [at, free] = holders.try_emplace(key, i.chunk, i.action.micro_batch);
        EXPECT_TRUE(free || at->second == std::make_pair(i.chunk, i.action.micro_batch)) << cell(i.action);
    };
    const auto release = [&](const Instruction& i, int kind, int number) {
        holders.erase({groups[static_cast<std::size_t>(i.chunk)], Slot{kind, number}});
    };
    const Instruction* partner = nullptr;
    const auto end = [&](const Instruction& i) {
        const ActionKind kind = i.action.kind;
        if (kind == ActionKind::B || kind == ActionKind::I) release(i, 0, i.binding.forward_slot);
        if (kind == ActionKind::B || kind == ActionKind::W) {
            release(i, 1, i.binding.linear_input_slot);
            release(i, 2, i.binding.output_gradient_slot);
        }
    };
    for (const Instruction& i : program.instructions) {
        if (i.kind != InstructionKind::compute) continue;
        if (i.action.kind != ActionKind::W) take(i, 0, i.binding.forward_slot);
        take(i, 1, i.binding.linear_input_slot);
        if (i.action.kind != ActionKind::F) take(i, 2, i.binding.output_gradient_slot);
        if (i.action.overlaps_next) {
            partner = &i;
            continue;
        }
        if (partner) end(*std::exchange(partner, nullptr));
        end(i);
    }
    EXPECT_TRUE(holders.empty());
}

TEST(ShareSlots, NoTwoHoldersOfOneSlot) {
    for (const Schedule& schedule : all_kinds(4, 9))
        for (Program program : lower(schedule)) {
            std::vector<int> groups(program.chunks.size(), 0);
            for (const int last_group : {0, 1}) {  // all together, and the last chunk apart
                groups.back() = last_group;
                share_slots(program, groups);
                expect_no_clash(program, groups);
            }
        }
}

TEST(ShareSlots, ChunksOfTheirOwnGroupsKeepTheirOwnPeaks) {
    const Schedule schedule = generate({.kind = "zbv", .pp = 4, .chunks = 2, .micro_batches = 8});
    for (Program program : lower(schedule)) {
        const std::vector<StageBuffers> before = program.chunks;
        share_slots(program, {0, 1});
        for (std::size_t chunk = 0; chunk < before.size(); ++chunk) {
            EXPECT_EQ(program.chunks[chunk].forward_slots, before[chunk].forward_slots);
            EXPECT_EQ(program.chunks[chunk].linear_input_slots, before[chunk].linear_input_slots);
            EXPECT_EQ(program.chunks[chunk].output_gradient_slots, before[chunk].output_gradient_slots);
        }
    }
}

TEST(ShareSlots, AForwardPassNeedsOneSlot) {
    for (Program program :
         lower(forward_only(generate({.kind = "interleaved", .pp = 2, .chunks = 3, .micro_batches = 4})))) {
        share_slots(program, {0, 0, 0});
        EXPECT_EQ(program.chunks[2].forward_slots, 1);
        EXPECT_EQ(program.chunks[2].linear_input_slots, 1);
    }
}

}  // namespace
}  // namespace escalier::schedule
