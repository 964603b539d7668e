#include "train/update_guard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace escalier::train {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

config::TrainConfig with_spikes(double z, std::int64_t window) {
    config::TrainConfig config;
    config.spike_z = z;
    config.spike_window = window;
    return config;
}

// Losses 1, 2, 1, 2, …: mean 1.5, deviation 0.5; norms are twice that.
void fill(UpdateGuard& guard, int steps) {
    for (int step = 0; step < steps; ++step) {
        const double loss = step % 2 ? 2 : 1;
        ASSERT_EQ(guard.judge(loss, 2 * loss), Verdict::update);
    }
}

TEST(UpdateGuard, KnowsNumbersThatAreNotFinite) {
    UpdateGuard guard{config::TrainConfig{}};
    EXPECT_EQ(guard.judge(1, 1), Verdict::update);
    EXPECT_EQ(guard.judge(nan, 1), Verdict::nonfinite);
    EXPECT_EQ(guard.judge(1, infinity), Verdict::nonfinite);
    EXPECT_EQ(guard.judge(-infinity, 1), Verdict::nonfinite);
    EXPECT_EQ(guard.state().skipped, 3);
    EXPECT_EQ(guard.judge(1e300, 1e300), Verdict::update) << "spikes are looked for only when asked";
    EXPECT_EQ(guard.state().skipped, 0) << "an update ends the row";
    EXPECT_TRUE(guard.state().losses.empty());
}

TEST(UpdateGuard, ASpikeIsFarAboveTheMeanOfTheWindow) {
    UpdateGuard guard(with_spikes(4, 8));
    fill(guard, 8);
    EXPECT_EQ(guard.judge(3.4, 3), Verdict::update);  // (3.4 - 1.5) / 0.5 = 3.8
    EXPECT_DOUBLE_EQ(guard.loss_z(), 3.8);
    EXPECT_DOUBLE_EQ(guard.norm_z(), 0);
    UpdateGuard other(with_spikes(4, 8));
    fill(other, 8);
    EXPECT_EQ(other.judge(3.6, 3), Verdict::spike);
    EXPECT_EQ(other.judge(1.5, 7.1), Verdict::spike);  // (7.1 - 3) / 1
    EXPECT_EQ(other.judge(-1000, 0), Verdict::update) << "a low loss is no spike";
    EXPECT_EQ(other.state().skipped, 0);
}

TEST(UpdateGuard, NothingIsASpikeBeforeTheWindowIsFullOrWhereItHasNoSpread) {
    UpdateGuard guard(with_spikes(2, 8));
    fill(guard, 7);
    EXPECT_EQ(guard.judge(1e9, 1e9), Verdict::update);
    UpdateGuard flat(with_spikes(2, 8));
    for (int step = 0; step < 8; ++step) flat.judge(1, 1);
    EXPECT_EQ(flat.judge(1.001, 1), Verdict::update);
}

TEST(UpdateGuard, WhatWasSkippedDoesNotEnterTheWindow) {
    UpdateGuard guard(with_spikes(4, 8));
    fill(guard, 8);
    for (int step = 0; step < 20; ++step) ASSERT_EQ(guard.judge(100, 100), Verdict::spike);
    EXPECT_EQ(guard.state().skipped, 20);
    EXPECT_EQ(guard.judge(nan, 1), Verdict::nonfinite);
    EXPECT_EQ(guard.judge(1, 2), Verdict::update);
    EXPECT_EQ(guard.state().losses.size(), 8u);
}

TEST(UpdateGuard, GoesOnFromASavedState) {
    UpdateGuard straight(with_spikes(3, 16)), resumed(with_spikes(3, 16));
    const auto loss = [](int step) { return 2 + std::sin(step) + (step % 13 == 0 ? 9 : 0); };
    for (int step = 1; step <= 30; ++step) straight.judge(loss(step), loss(step + 5));
    resumed.restore(straight.state());
    for (int step = 31; step <= 80; ++step) {
        ASSERT_EQ(straight.judge(loss(step), loss(step + 5)), resumed.judge(loss(step), loss(step + 5)));
        ASSERT_EQ(straight.loss_z(), resumed.loss_z());
        ASSERT_EQ(straight.norm_z(), resumed.norm_z());
    }
    EXPECT_EQ(straight.state().skipped, resumed.state().skipped);
}

TEST(UpdateGuard, AWindowOfAnotherLengthKeepsTheNewest) {
    UpdateGuard guard(with_spikes(4, 8));
    guard.restore({{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 5});
    EXPECT_EQ(guard.state().losses, (std::vector<double>{3, 4, 5, 6, 7, 8, 9, 10}));
    EXPECT_EQ(guard.state().skipped, 5);
}

}  // namespace
}  // namespace escalier::train
