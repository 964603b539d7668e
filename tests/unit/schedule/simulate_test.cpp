#include "schedule/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "core/error.h"
#include "golden.h"
#include "schedule/generators.h"
#include "schedule/lower.h"
#include "schedule/prove.h"

namespace escalier::schedule {
namespace {

// Per rank, most messages that have arrived and wait for the compute that takes them.
// Transfers take no time.
std::vector<int> most_unconsumed(const Schedule& schedule, const Timeline& timeline) {
    struct Times {
        double start, end;
    };
    std::map<std::tuple<bool, int, int>, Times> computes;  // (forward, stage, micro-batch)
    for (const auto& row : timeline.ranks)
        for (const auto& [action, start, end] : row)
            if (action.kind != ActionKind::W)
                computes[{action.kind == ActionKind::F, action.stage, action.micro_batch}] = {start, end};
    std::vector<std::vector<std::pair<double, int>>> changes(timeline.ranks.size());  // +1 arrives, -1 taken
    for (const auto& [key, taken] : computes) {
        const auto [forward, stage, mb] = key;
        const int from = forward ? stage - 1 : stage + 1;
        if (from < 0 || from == schedule.stages()) continue;
        const Action sender{ActionKind::F, from, mb}, receiver{ActionKind::F, stage, mb};
        if (schedule.rank_of(sender) == schedule.rank_of(receiver)) continue;
        auto& rank = changes[static_cast<std::size_t>(schedule.rank_of(receiver))];
        rank.push_back({computes.at({forward, from, mb}).end, 1});
        rank.push_back({taken.start, -1});
    }
    std::vector<int> most;
    for (auto& rank : changes) {
        for (auto& [time, change] : rank) time = std::round(time * 1e6);
        std::sort(rank.begin(), rank.end());  // taken before arrived at the same moment
        int waiting = 0;
        most.push_back(0);
        for (const auto& [time, change] : rank) most.back() = std::max(most.back(), waiting += change);
    }
    return most;
}

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
        // In sets B and C rounding decides whether a message arrives before it is taken.
        if (expected.set == "A") {
            EXPECT_EQ(most_unconsumed(schedule, timeline), expected.most_unconsumed);
        }
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
