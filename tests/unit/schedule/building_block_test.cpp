#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "schedule/generators.h"
#include "schedule/memory.h"
#include "schedule/prove.h"
#include "schedule/simulate.h"

namespace escalier::schedule {
namespace {

Schedule make(const std::string& kind, int pp, int micro_batches) {
    return generate({.kind = kind, .pp = pp, .chunks = 2, .micro_batches = micro_batches});
}

int most_alive(const Schedule& schedule) {
    const auto peaks = peak_bytes(schedule, ActivationBytes::unit(schedule.stages()));
    return static_cast<int>(*std::max_element(peaks.begin(), peaks.end()));
}

// What 1f1b's idle share is times this.
double share_of_1f1b(const std::string& kind) {
    return kind == "v-half" ? 1.0 / 2 : 2.0 / 3;
}

TEST(BuildingBlock, MemoryIsAHalfAndAThirdOf1f1bPlusAConstant) {
    for (int pp = 1; pp <= 24; ++pp) {
        for (const int micro_batches : {1, pp, 2 * pp + 1, 6 * pp}) {
            EXPECT_LE(most_alive(make("v-half", pp, micro_batches)), pp + 2) << pp << " " << micro_batches;
            EXPECT_LE(3 * most_alive(make("v-min", pp, micro_batches)), 2 * pp + 8)
                << pp << " " << micro_batches;
        }
    }
}

TEST(BuildingBlock, IdleShareIsNearAHalfAndTwoThirdsOf1f1b) {
    for (const std::string kind : {"v-half", "v-min"}) {
        for (int pp = 4; pp <= 16; ++pp) {
            for (const int micro_batches : {4 * pp, 5 * pp + 1, 6 * pp, 8 * pp, 20 * pp}) {
                const double one_f_one_b = (pp - 1.0) / (micro_batches + pp - 1);
                const Timeline timeline =
                    simulate(make(kind, pp, micro_batches), Durations::uniform(2 * pp, 1, 1, 1, 0));
                EXPECT_NEAR(timeline.idle_share, share_of_1f1b(kind) * one_f_one_b, 0.02)
                    << kind << " P " << pp << " M " << micro_batches;
                EXPECT_NEAR(timeline.span_idle_share, share_of_1f1b(kind) * one_f_one_b, 0.02)
                    << kind << " P " << pp << " M " << micro_batches;
            }
        }
    }
}

// Any size runs, with weight gradients in ascending order, and never slower than one micro-batch at a time.
TEST(BuildingBlock, AnyNumberOfRanksAndMicroBatchesRuns) {
    for (const std::string kind : {"v-half", "v-min"}) {
        for (int pp = 1; pp <= 9; ++pp) {
            for (int micro_batches = 1; micro_batches <= 20; ++micro_batches) {
                const Schedule schedule = make(kind, pp, micro_batches);
                EXPECT_EQ(schedule.placement, Placement::v);
                EXPECT_TRUE(prove(schedule).exact) << kind << " P " << pp << " M " << micro_batches;
                const Durations durations = Durations::uniform(2 * pp, 1, 1, 1, 0);
                const double latency = 4.0 * pp + 1;
                const double alone = simulate(make(kind, pp, 1), durations).makespan;
                EXPECT_LE(alone, latency + 1);
                EXPECT_LE(simulate(schedule, durations).makespan, alone + 6.0 * pp * (micro_batches - 1));
            }
        }
    }
}

TEST(BuildingBlock, TakesTwoChunksOnly) {
    for (const std::string kind : {"v-half", "v-min"}) {
        try {
            generate({.kind = kind, .pp = 4, .chunks = 3, .micro_batches = 8});
            FAIL() << kind << " took three chunks";
        } catch (const ConfigError& error) {
            EXPECT_NE(std::string(error.what()).find("found chunks 3; set chunks to 2"), std::string::npos);
        }
    }
}

}  // namespace
}  // namespace escalier::schedule
