// The executor over real channels: results equal those of a loop without any pipeline, for every schedule,
// size of message and way of sending; nothing is allocated; every part of a step is accounted for.
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "device/device.h"
#include "pipeline/channels.h"
#include "pipeline/end_exchange.h"
#include "pipeline/executor.h"
#include "schedule/csv.h"
#include "schedule/generators.h"
#include "schedule/lower.h"
#include "tests/harness/count_allocations.h"
#include "tests/harness/fake_stage.h"
#include "tests/harness/multirank_main.h"

namespace escalier::pipeline {
namespace {

using schedule::ActionKind;
using schedule::Schedule;
using test::env;
using test::FakeStage;

// One rank's part of a pipeline of fake stages.
struct Pipeline {
    std::vector<schedule::Program> programs;
    std::unique_ptr<comm::Communicator> pp;
    std::unique_ptr<device::Device> device = device::make_cpu_device();
    std::unique_ptr<device::Arena> arena;
    std::unique_ptr<comm::Transport> transport = comm::make_mpi_transport(env());
    std::unique_ptr<Channels> channels;
    RealClock clock;
    std::vector<std::unique_ptr<FakeStage>> stages;
    std::vector<int> reduced;
    int polls = 0;
    std::unique_ptr<Executor> executor;  // null on ranks beyond the pipeline

    Pipeline(const Schedule& schedule, std::int64_t elements, bool synchronous,
             std::function<void(ActionKind)> work = nullptr)
        : programs(schedule::lower(schedule)) {
        comm::Communicator& world = env().world();
        pp = world.split(world.rank() < schedule.pp ? 0 : -1, world.rank());
        if (!pp) return;
        channels = std::make_unique<Channels>(*transport, *pp, schedule, programs,
                                              std::vector<schedule::Program>{}, synchronous);
        const schedule::Program& program = programs[static_cast<std::size_t>(pp->rank())];
        std::vector<model::Stage*> models;
        for (const schedule::StageBuffers& buffers : program.chunks) {
            stages.push_back(
                std::make_unique<FakeStage>(buffers.stage, schedule.stages(), elements, buffers, work));
            models.push_back(stages.back().get());
        }
        reduced.reserve(64);
        const auto make = [&](device::Arena& from) {
            return std::make_unique<Executor>(
                program, models, DType::f32, Shape{1, elements}, from, *channels, clock,
                [this](int chunk) { reduced.push_back(chunk); }, [this] { ++polls; });
        };
        device::Arena measured("communication");
        make(measured);
        arena = std::make_unique<device::Arena>("communication", device->allocator(), measured.used());
        executor = make(*arena);
        EXPECT_EQ(arena->used(), measured.used());
    }
};

Schedule make(const std::string& kind, int pp, int micro_batches,
              schedule::BackwardOrder backward = schedule::BackwardOrder::fifo) {
    schedule::GenerateOptions options;
    options.kind = kind;
    options.pp = pp;
    options.chunks = schedule::find_kind(kind)->default_chunks;
    options.micro_batches = micro_batches;
    options.backward = backward;
    return schedule::generate(options);
}

// All kinds and orders that take these sizes.
std::vector<Schedule> all_schedules(int pp, int micro_batches) {
    std::vector<Schedule> all;
    for (const schedule::Kind& kind : schedule::kinds()) {
        for (const auto order : {schedule::BackwardOrder::fifo, schedule::BackwardOrder::lifo}) {
            schedule::GenerateOptions options;
            options.kind = kind.name;
            options.pp = pp;
            options.chunks = kind.default_chunks;
            options.micro_batches = micro_batches;
            options.backward = order;
            if (schedule::size_problem(kind, options).empty()) all.push_back(schedule::generate(options));
        }
    }
    return all;
}

void expect_right(const Schedule& schedule, std::int64_t elements, bool synchronous) {
    const std::string what = schedule.kind + " P=" + std::to_string(schedule.pp) +
                             " M=" + std::to_string(schedule.micro_batches) +
                             " elements=" + std::to_string(elements);
    Pipeline pipeline(schedule, elements, synchronous);
    if (!pipeline.executor) return;
    const auto expected = test::expected_digests(schedule, elements);
    for (int step = 0; step < 2; ++step) {
        for (auto& stage : pipeline.stages) stage->digest = 0;
        pipeline.reduced.clear();
        pipeline.executor->run_step();
        const schedule::Program& program = pipeline.programs[static_cast<std::size_t>(pipeline.pp->rank())];
        for (std::size_t c = 0; c < pipeline.stages.size(); ++c)
            EXPECT_EQ(pipeline.stages[c]->digest,
                      expected[static_cast<std::size_t>(program.chunks[c].copy * schedule.stages() +
                                                        program.chunks[c].stage)])
                << what;
        EXPECT_EQ(pipeline.reduced.size(), pipeline.stages.size()) << what;
        EXPECT_EQ(pipeline.executor->times().actions.size(),
                  schedule.ranks[static_cast<std::size_t>(pipeline.pp->rank())].size());
    }
}

class ExecutorTest : public ::testing::TestWithParam<bool> {};

TEST_P(ExecutorTest, EverySchedule) {
    for (const int pp : {1, 2, 3, 4})
        for (const int micro_batches : {1, 2, 3, 8, 13})
            for (const Schedule& schedule : all_schedules(pp, micro_batches))
                expect_right(schedule, 6, GetParam());
}

TEST_P(ExecutorTest, MessagesOfAnySize) {
    for (const std::int64_t bytes : {8, 70000})
        for (const Schedule& schedule : all_schedules(4, 8)) expect_right(schedule, bytes / 4, GetParam());
    for (const char* kind : {"gpipe", "1f1b", "zbv", "dualpipe"})
        for (const std::int64_t bytes : {4000, 1000000})
            expect_right(make(kind, 4, 8), bytes / 4, GetParam());
    expect_right(make("1f1b", 2, 3), 16 * 1000 * 1000 / 4, GetParam());
}

// Collectives of a pair run in the background; those of other actions at once.
TEST(Executor, CollectivesOfOverlappedPairsRunBehindTheOtherAction) {
    for (const char* kind : {"dualpipe", "dualpipev", "1f1b"}) {
        const Schedule schedule = make(kind, 4, 8);
        Pipeline pipeline(schedule, 10, false);
        pipeline.executor->run_step();
        int pairs = 0, background = 0;
        for (const schedule::Action& action : schedule.ranks[static_cast<std::size_t>(pipeline.pp->rank())])
            pairs += action.overlaps_next;
        for (const auto& stage : pipeline.stages) background += stage->background_collectives;
        EXPECT_EQ(background, 2 * pairs) << kind;
        EXPECT_EQ(pairs > 0, kind != std::string("1f1b"));
    }
}

// ZB-H1 (Qi et al., "Zero Bubble Pipeline Parallelism", 2023) for 3 stages and 4 micro-batches: backward in
// two halves, with the weight halves filling the cool-down.
TEST_P(ExecutorTest, SplitBackward) {
    std::istringstream csv(
        "0F0,0F1,0F2,0I0,0W0,0F3,0I1,0W1,0I2,0W2,0I3,0W3\n"
        "1F0,1F1,1I0,1F2,1I1,1W0,1F3,1I2,1W1,1I3,1W2,1W3\n"
        "2F0,2I0,2F1,2I1,2F2,2I2,2W0,2F3,2I3,2W1,2W2,2W3\n");
    expect_right(schedule::from_csv(csv, "split"), 1000, GetParam());
}

// Two stages on each of two ranks, loop placement: with both edges between the same pair of ranks.
TEST_P(ExecutorTest, SeveralStagesPerRank) {
    std::istringstream csv(
        "0F0,0F1,2F0,2F1,0F2,2B0,2F2,2B1,0B0,2B2,0B1,0B2\n"
        "1F0,1F1,3F0,3B0,3F1,3B1,1F2,1B0,3F2,3B2,1B1,1B2\n");
    expect_right(schedule::from_csv(csv, "interleaved"), 1000, GetParam());
}

// V placement: stages 1 and 2 meet on rank 1 and hand over without a message.
TEST_P(ExecutorTest, NeighboursOnOneRank) {
    std::istringstream csv(
        "0F0,0F1,3F0,3B0,3F1,3B1,0B0,0B1\n"
        "1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1\n");
    expect_right(schedule::from_csv(csv, "v"), 1000, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Sends, ExecutorTest, ::testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "Synchronous" : "Eager"); });

TEST(Executor, AllocatesNothingInAStep) {
    for (const Schedule& schedule : all_schedules(4, 8)) {
        Pipeline pipeline(schedule, 50000, false);
        EndExchange exchange(env(), *pipeline.pp, pipeline.programs);
        pipeline.executor->run_step();
        exchange.split(pipeline.executor->times());
        const std::int64_t before = test::allocations_of_this_thread();
        for (int step = 0; step < 3; ++step) {
            pipeline.executor->run_step();
            exchange.split(pipeline.executor->times());
        }
        EXPECT_EQ(test::allocations_of_this_thread(), before) << schedule.kind;
    }
}

TEST(Executor, PollsBetweenSegments) {
    Pipeline pipeline(make("1f1b", 2, 4), 10, false);
    if (!pipeline.executor) return;
    pipeline.executor->run_step();
    EXPECT_EQ(pipeline.polls, 2 * 8);  // two gaps in each of 4 F and 4 B
}

TEST(Executor, AccountsForAllOfAStep) {
    const auto nap = [](ActionKind) { usleep(1000); };
    const int micro_batches = 4;
    Pipeline pipeline(make("gpipe", 4, micro_batches), 1000, false, nap);
    EndExchange exchange(env(), *pipeline.pp, pipeline.programs);
    for (int step = 0; step < 2; ++step) {
        env().world().barrier("start");
        pipeline.executor->run_step();
        const StepTimes& times = pipeline.executor->times();
        const StepSplit split = exchange.split(times);
        EXPECT_GE(split.compute, 2 * 2 * micro_batches * 1e-3);  // two naps in each action
        EXPECT_GE(split.tensor_collectives, 2 * micro_batches * 1e-3);
        EXPECT_GE(split.exposed, 0);
        EXPECT_GE(split.rest, 0);
        EXPECT_NEAR(split.compute + split.tensor_collectives + split.exposed + split.bubble + split.rest,
                    times.end - times.start, 1e-9);
        EXPECT_GT(split.bubble + split.tail, 0);  // every rank of a GPipe of four waits for somebody
        const auto& told = exchange.actions()[static_cast<std::size_t>(pipeline.pp->rank())];
        ASSERT_EQ(told.size(), times.actions.size());
        for (std::size_t i = 0; i < told.size(); ++i) {
            EXPECT_EQ(told[i].action, times.actions[i].action);
            EXPECT_NEAR(told[i].start, times.actions[i].start, 1e-9);
            EXPECT_NEAR(told[i].end, times.actions[i].end, 1e-9);
            EXPECT_GE(told[i].work, 3e-3);  // a nap in each segment
            EXPECT_LE(told[i].work, told[i].end - told[i].start + 1e-9);
        }
        double previous = times.start;
        for (const ActionTime& action : times.actions) {
            EXPECT_LE(previous, action.start);
            EXPECT_LE(action.start, action.end);
            previous = action.end;
        }
        EXPECT_LE(previous, times.end);
    }
}

}  // namespace
}  // namespace escalier::pipeline
