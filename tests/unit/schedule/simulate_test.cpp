#include "schedule/simulate.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "golden.h"
#include "schedule/generators.h"
#include "schedule/lower.h"
#include "schedule/prove.h"

namespace escalier::schedule {
namespace {

TEST(Simulate, ReproducesThePublishedFiguresOfEveryOrder) {
    const std::vector<Metrics> all = read_metrics();
    ASSERT_EQ(all.size(), 3 * order_files("").size());
    for (const Metrics& expected : all) {
        SCOPED_TRACE(expected.file + " " + expected.set);
        const Schedule schedule = read_order(expected.file);
        Durations durations = Durations::uniform(schedule.stages(), expected.forward, expected.input_gradient,
                                                 expected.weight_gradient, expected.transfer);
        durations.pair_factor = expected.pair_factor;
        const Timeline timeline = simulate(schedule, durations);
        EXPECT_NEAR(timeline.makespan, expected.makespan, 1e-6);
        EXPECT_NEAR(timeline.span, expected.span, 1e-6);
        // Rank 0's; with overlapped pairs some ranks are busy for longer than others.
        EXPECT_NEAR((timeline.span - timeline.busy[0]) / timeline.span, expected.span_idle_share, 1e-6);
        EXPECT_EQ(timeline.messages, expected.messages);
        ASSERT_EQ(timeline.idle.size(), expected.idle.size());
        double mean = 0, mean_of_span = 0;
        for (std::size_t rank = 0; rank < expected.idle.size(); ++rank) {
            EXPECT_NEAR(timeline.idle[rank], expected.idle[rank], 1e-6);
            mean += timeline.idle[rank] / schedule.pp;
            mean_of_span += (timeline.span - timeline.busy[rank]) / timeline.span / schedule.pp;
        }
        EXPECT_NEAR(timeline.idle_share, mean, 1e-12);
        EXPECT_NEAR(timeline.span_idle_share, mean_of_span, 1e-12);
        const Proof proof = prove(schedule);
        EXPECT_EQ(proof.peak_until_weight, expected.peak_until_weight);
        EXPECT_EQ(proof.peak_until_input, expected.peak_until_input);
        EXPECT_EQ(proof.messages, expected.messages);
    }
}

TEST(Simulate, IdleShareHasItsClosedForm) {
    for (const char* kind : {"gpipe", "1f1b"}) {
        for (int pp = 1; pp <= 9; ++pp) {
            for (int micro_batches = 1; micro_batches <= 25; ++micro_batches) {
                const Schedule schedule = generate({kind, pp, 1, micro_batches});
                const Timeline timeline =
                    simulate(schedule, lower(schedule), Durations::uniform(pp, 1, 1, 1, 0));
                EXPECT_NEAR(timeline.idle_share, (pp - 1.0) / (micro_batches + pp - 1.0), 1e-12)
                    << kind << " " << pp << " " << micro_batches;
            }
        }
    }
}

TEST(Simulate, EveryActionRunsForItsStagesDuration) {
    const Schedule schedule = read_order("zbv_P2_V2_M4.csv");
    Durations durations = Durations::uniform(4, 0, 0, 0, 0.125);
    for (std::size_t stage = 0; stage < 4; ++stage) {
        durations.forward[stage] = 1 + static_cast<double>(stage);
        durations.input_gradient[stage] = 2 + static_cast<double>(stage);
        durations.weight_gradient[stage] = 0.5;
    }
    const Timeline timeline = simulate(schedule, durations);
    for (std::size_t rank = 0; rank < 2; ++rank) {
        double end = 0, busy = 0;
        for (const TimedAction& timed : timeline.ranks[rank]) {
            const double stage = timed.action.stage;
            const double length = timed.action.kind == ActionKind::F   ? 1 + stage
                                  : timed.action.kind == ActionKind::I ? 2 + stage
                                                                       : 0.5;
            EXPECT_DOUBLE_EQ(timed.end - timed.start, length);
            EXPECT_GE(timed.start, end);
            end = timed.end;
            busy += length;
        }
        EXPECT_DOUBLE_EQ(timeline.busy[rank], busy);
        EXPECT_DOUBLE_EQ(timeline.idle[rank], 1 - busy / timeline.makespan);
    }
    EXPECT_DOUBLE_EQ(timeline.ranks[1][0].start, 1.125) << "first message: stage 0's forward and a transfer";
}

TEST(Simulate, MessagesOfOneChannelMoveOneAfterTheOther) {
    // Transfers of 5 dwarf forwards of 1: the last of three activations arrives at 1 + 3 * 5.
    const Schedule schedule = generate({"gpipe", 2, 1, 3});
    const Timeline timeline = simulate(schedule, Durations::uniform(2, 1, 1, 1, 5));
    EXPECT_DOUBLE_EQ(timeline.ranks[1][2].start, 16);
}

TEST(Simulate, AScheduleThatNeverEndsIsRefused) {
    Schedule schedule = generate({"1f1b", 2, 1, 2});
    std::swap(schedule.ranks[1][0], schedule.ranks[1][2]);  // 1F1 1B0 1F0 1B1: B0 before F0
    EXPECT_THROW(simulate(schedule, Durations::uniform(2, 1, 1, 1, 0)), ConfigError);
}

}  // namespace
}  // namespace escalier::schedule
