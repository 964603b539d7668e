#include "optim/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"

namespace escalier::optim {
namespace {

config::LrConfig make(const std::string& schedule, std::int64_t warmup, std::int64_t decay) {
    config::LrConfig lr;
    lr.schedule = schedule;
    lr.peak = 3e-3;
    lr.min = 3e-4;
    lr.warmup_steps = warmup;
    lr.decay_steps = decay;
    return lr;
}

const std::vector<std::string> all_schedules = {"constant", "linear", "cosine", "wsd", "inverse_sqrt"};

TEST(LrSchedule, WarmsUpLinearlyToThePeak) {
    for (const std::string& schedule : all_schedules) {
        const config::LrConfig lr = make(schedule, 20, schedule == "wsd" ? 30 : 100);
        EXPECT_DOUBLE_EQ(learning_rate(lr, 100, 1), 3e-3 / 20) << schedule;
        EXPECT_DOUBLE_EQ(learning_rate(lr, 100, 10), 1.5e-3) << schedule;
        EXPECT_EQ(learning_rate(lr, 100, 20), 3e-3) << schedule;
    }
}

TEST(LrSchedule, ConstantStaysAtThePeak) {
    for (std::int64_t step : {1, 50, 1000})
        EXPECT_EQ(learning_rate(make("constant", 0, 100), 100, step), 3e-3);
}

TEST(LrSchedule, LinearAndCosineAreHalfWayDownInTheMiddle) {
    for (const std::string schedule : {"linear", "cosine"}) {
        EXPECT_NEAR(learning_rate(make(schedule, 20, 100), 100, 60), (3e-3 + 3e-4) / 2, 1e-15) << schedule;
        EXPECT_NEAR(learning_rate(make(schedule, 0, 100), 100, 50), (3e-3 + 3e-4) / 2, 1e-15) << schedule;
    }
    EXPECT_NEAR(learning_rate(make("linear", 20, 100), 100, 40), 3e-3 - 2.7e-3 / 4, 1e-15);
    EXPECT_NEAR(learning_rate(make("cosine", 20, 100), 100, 40), 3e-4 + 2.7e-3 * 0.5 * (1 + std::sqrt(0.5)),
                1e-15);
}

TEST(LrSchedule, WsdIsStableThenFallsOverItsLastSteps) {
    const config::LrConfig lr = make("wsd", 10, 20);
    for (std::int64_t step : {10, 50, 80}) EXPECT_EQ(learning_rate(lr, 100, step), 3e-3);
    EXPECT_LT(learning_rate(lr, 100, 81), 3e-3);
    EXPECT_NEAR(learning_rate(lr, 100, 90), (3e-3 + 3e-4) / 2, 1e-15);
}

TEST(LrSchedule, EndsExactlyAtTheMinimumAndStaysThere) {
    for (const std::string schedule : {"linear", "cosine", "wsd"})
        for (std::int64_t step : {100, 101, 5000})
            EXPECT_EQ(learning_rate(make(schedule, 7, schedule == "wsd" ? 20 : 100), 100, step), 3e-4)
                << schedule;
}

TEST(LrSchedule, InverseSquareRootQuartersOverSixteenTimesTheWarmup) {
    config::LrConfig lr = make("inverse_sqrt", 10, 100);
    EXPECT_NEAR(learning_rate(lr, 100, 40), 1.5e-3, 1e-15);
    EXPECT_NEAR(learning_rate(lr, 100, 160), 0.75e-3, 1e-15);
    EXPECT_EQ(learning_rate(lr, 100, 100'000), 3e-4);
    lr.warmup_steps = 0;
    EXPECT_EQ(learning_rate(lr, 100, 1), 3e-3);
}

TEST(LrSchedule, NeverRisesAfterTheWarmupNorLeavesItsBounds) {
    for (const std::string& schedule : all_schedules) {
        const config::LrConfig lr = make(schedule, 5, schedule == "wsd" ? 33 : 90);
        for (std::int64_t step = 6; step <= 120; ++step) {
            EXPECT_LE(learning_rate(lr, 100, step), learning_rate(lr, 100, step - 1)) << schedule << step;
            EXPECT_GE(learning_rate(lr, 100, step), 3e-4) << schedule << step;
        }
    }
}

TEST(LrSchedule, WarmupAsLongAsTheDecayGoesStraightToTheMinimum) {
    EXPECT_EQ(learning_rate(make("cosine", 100, 100), 100, 100), 3e-3);
    EXPECT_EQ(learning_rate(make("cosine", 100, 100), 100, 101), 3e-4);
}

TEST(LrSchedule, RefusesAnUnknownName) {
    EXPECT_THROW(learning_rate(make("cosin", 0, 100), 100, 5), ConfigError);
}

}  // namespace
}  // namespace escalier::optim
