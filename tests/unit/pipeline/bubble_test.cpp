// Idle shares split into their causes, on steps that the simulator makes up: each cause shows up in its own
// figure and in no other.
#include "pipeline/bubble.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "schedule/generators.h"
#include "schedule/lower.h"
#include "schedule/simulate.h"

namespace escalier::pipeline {
namespace {

using schedule::ActionKind;

struct MadeUp {
    schedule::Schedule schedule;
    std::vector<schedule::Program> programs;
    std::vector<std::vector<double>> durations;

    explicit MadeUp(const std::string& kind, int pp = 2, int micro_batches = 6) {
        schedule::GenerateOptions options;
        options.kind = kind;
        options.pp = pp;
        options.chunks = schedule::find_kind(kind)->default_chunks;
        options.micro_batches = micro_batches;
        schedule = schedule::generate(options);
        programs = schedule::lower(schedule);
        for (const auto& row : schedule.ranks) {
            std::vector<double>& of_rank = durations.emplace_back();
            for (const schedule::Action& action : row)
                of_rank.push_back(action.kind == ActionKind::B ? 2 : 1);
        }
    }

    // As ranks would have recorded it, from a start that is not 0.
    RankActions step(double transfer = 0) const {
        RankActions actions;
        const schedule::Timeline timeline = schedule::replay(schedule, programs, durations, transfer);
        for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
            auto& row = actions.emplace_back();
            for (std::size_t i = 0; i < timeline.ranks[rank].size(); ++i) {
                const schedule::TimedAction& timed = timeline.ranks[rank][i];
                row.push_back({timed.action, 100 + timed.start, 100 + timed.end, durations[rank][i]});
            }
        }
        return actions;
    }

    void slow_down(int stage, double factor) {
        for (std::size_t rank = 0; rank < durations.size(); ++rank)
            for (std::size_t i = 0; i < durations[rank].size(); ++i)
                if (schedule.ranks[rank][i].stage == stage) durations[rank][i] *= factor;
    }
};

Bubble bubble_of(const MadeUp& run, const RankActions& step) {
    BubbleRecorder recorder(run.schedule, run.programs);
    recorder.add(step);
    return recorder.bubble();
}

constexpr double close = 1e-12;

TEST(Bubble, EqualStagesReachTheTheory) {
    const MadeUp run("1f1b");
    const Bubble bubble = bubble_of(run, run.step());
    EXPECT_NEAR(bubble.theory, 1.0 / 7, close);  // (P-1)/(M+P-1)
    EXPECT_NEAR(bubble.imbalance(), 0, close);
    EXPECT_NEAR(bubble.stragglers(), 0, close);
    EXPECT_NEAR(bubble.communication(), 0, close);
    EXPECT_NEAR(bubble.measured_makespan, 21, close);
    EXPECT_NEAR(bubble.replayed_makespan, 21, close);
    EXPECT_EQ(bubble.steps, 1);
}

TEST(Bubble, UnevenStagesAreImbalance) {
    MadeUp run("1f1b");
    run.slow_down(1, 2);
    const Bubble bubble = bubble_of(run, run.step());
    EXPECT_NEAR(bubble.theory, 1.0 / 7, close);
    // Rank 1 works 36 of 39 (it waits for one F), rank 0 half of that.
    EXPECT_NEAR(bubble.simulated, 1 - (36.0 + 18.0) / 2 / 39, close);
    EXPECT_NEAR(bubble.stragglers(), 0, close);
    EXPECT_NEAR(bubble.communication(), 0, close);
}

TEST(Bubble, OneSlowActionIsAStraggler) {
    MadeUp run("1f1b");
    run.durations[0][2] += 3;
    const Bubble bubble = bubble_of(run, run.step());
    EXPECT_GT(bubble.stragglers(), 0.01);
    EXPECT_NEAR(bubble.communication(), 0, close);
}

TEST(Bubble, SlowMessagesAreCommunication) {
    const MadeUp run("1f1b");
    const Bubble bubble = bubble_of(run, run.step(0.5));
    EXPECT_NEAR(bubble.replayed, 1.0 / 7, close);
    EXPECT_NEAR(bubble.replayed_makespan, 21, close);
    EXPECT_NEAR(bubble.measured_makespan, 24, close);  // 6 of the messages lie on the longest path
    EXPECT_NEAR(bubble.communication(), 18.0 / 21 - 18.0 / 24, close);
}

TEST(Bubble, FiguresAddUpForEverySchedule) {
    for (const schedule::Kind& kind : schedule::kinds()) {
        MadeUp run(std::string(kind.name), 4, 8);
        run.slow_down(1, 1.5);
        run.durations[2][3] += 1;
        const Bubble bubble = bubble_of(run, run.step(0.25));
        EXPECT_NEAR(bubble.theory + bubble.imbalance() + bubble.stragglers() + bubble.communication(),
                    bubble.measured, close)
            << kind.name;
        EXPECT_GE(bubble.theory, 0) << kind.name;
        EXPECT_LT(bubble.measured, 1) << kind.name;
    }
}

TEST(Bubble, IsTheMeanOfTheStepsKept) {
    MadeUp run("1f1b");
    BubbleRecorder recorder(run.schedule, run.programs);
    recorder.add(run.step());
    run.slow_down(0, 2);
    run.slow_down(1, 2);
    recorder.add(run.step());
    const Bubble bubble = recorder.bubble();
    EXPECT_EQ(bubble.steps, 2);
    EXPECT_NEAR(bubble.measured_makespan, (21 + 42) / 2.0, close);
    for (int i = 0; i < 200; ++i) recorder.add(run.step());  // the first two are forgotten
    EXPECT_EQ(recorder.steps(), 100);
    EXPECT_NEAR(recorder.bubble().measured_makespan, 42, close);
}

TEST(Bubble, StageTimesAreMeansByKind) {
    MadeUp run("zb-h1");
    run.slow_down(1, 3);
    run.durations[1][0] += 6;  // F of micro-batch 0 on stage 1
    const std::vector<StageTimes> times = stage_times(run.schedule, run.step());
    ASSERT_EQ(times.size(), 2U);
    EXPECT_EQ(times[1].stage, 1);
    EXPECT_EQ(times[1].pp_rank, 1);
    EXPECT_NEAR(times[0].forward, 1, close);
    EXPECT_NEAR(times[1].forward, 3 + 6.0 / 6, close);
    EXPECT_NEAR(times[1].input_gradient, 3, close);
    EXPECT_NEAR(times[1].weight_gradient, 3, close);
    EXPECT_EQ(times[1].backward, 0);
}

// The time of an overlapped pair goes to its actions as their work does.
TEST(Bubble, PairsShareTheirTime) {
    MadeUp run("dualpipev");
    RankActions step = run.step();
    const std::vector<StageTimes> times = stage_times(run.schedule, step);
    for (const StageTimes& stage : times) EXPECT_NEAR(stage.forward, 1, close);
    const Bubble bubble = bubble_of(run, step);
    EXPECT_NEAR(bubble.communication(), 0, close);
}

TEST(Bubble, RefusesStepsOfAnotherSchedule) {
    const MadeUp run("1f1b"), other("1f1b", 2, 7);
    BubbleRecorder recorder(run.schedule, run.programs);
    EXPECT_THROW(recorder.add(other.step()), InternalError);
    EXPECT_THROW(BubbleRecorder(run.schedule, run.programs).bubble(), InternalError);
}

}  // namespace
}  // namespace escalier::pipeline
