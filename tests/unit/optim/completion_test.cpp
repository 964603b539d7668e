#include "optim/completion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "device/device.h"
#include "optim/grad_norm.h"
#include "tests/unit/optim/fake_group.h"
#include "tests/unit/optim/parameters.h"

namespace escalier::optim {
namespace {

class CompletionTest : public ::testing::Test {
 protected:
    void run() {
        device::Arena measured("communication");
        GradientCompletion(made_.list, groups_, runner_.ops, measured);
        arena_.emplace("communication", device_->allocator(), measured.used());
        GradientCompletion completion(made_.list, groups_, runner_.ops, *arena_);
        EXPECT_EQ(arena_->used(), measured.used());
        made_.fill();
        before_.clear();
        for (const model::Parameter& p : made_.list) before_.push_back(values(p.gradient));
        completion.run(runner_.context);
    }
    void expect_times(std::size_t entry, float factor) {
        for (std::size_t i = 0; i < before_[entry].size(); ++i)
            ASSERT_EQ(made_.list[entry].gradient.as<float>()[i], before_[entry][i] * factor)
                << "entry " << entry << " element " << i;
    }

    MadeParameters made_;
    std::vector<std::vector<float>> before_;
    OpRunner runner_;
    FakeGroup job_;
    parallel::Groups groups_{job_, parallel::Grid{}, 1};
    std::unique_ptr<device::Device> device_ = device::make_cpu_device();
    std::optional<device::Arena> arena_;
};

TEST_F(CompletionTest, SumsOnlyWhatRanksComputedInParts) {
    groups_.tp = std::make_unique<FakeGroup>(4);
    groups_.kv = std::make_unique<FakeGroup>(2);
    using model::Replicas;
    const std::pair<Replicas, float> kinds[] = {
        {Replicas::none, 1.0f}, {Replicas::tp, 1.0f}, {Replicas::tp_sum, 4.0f}, {Replicas::kv_sum, 2.0f}};
    std::vector<float> factors;
    for (const auto& [replicas, factor] : kinds)
        for (const Shape shape : {Shape{7}, Shape{200, 100}, Shape{12, 3}}) {
            made_.add(shape).replicas = replicas;
            factors.push_back(factor);
        }
    run();
    for (std::size_t entry = 0; entry < factors.size(); ++entry) expect_times(entry, factors[entry]);
}

TEST_F(CompletionTest, AddsTheHeadsGradientToTheEmbeddingsOnOneRank) {
    made_.add({9, 4}).tie_group = 0;
    made_.add({4});
    model::Parameter& head = made_.add({9, 4});
    head.tie_group = 0;
    head.weight = made_.list[0].weight;
    run();
    for (std::size_t i = 0; i < before_[0].size(); ++i)
        EXPECT_EQ(made_.list[0].gradient.as<float>()[i], before_[0][i] + before_[2][i]);
    expect_times(1, 1.0f);
}

TEST_F(CompletionTest, SumsOverTheTiedGroupWhereTheOtherCopyIsElsewhere) {
    groups_.tied = std::make_unique<FakeGroup>(2);
    made_.add({9, 4}).tie_group = 0;
    made_.add({4});
    run();
    expect_times(0, 2.0f);
    expect_times(1, 1.0f);
}

// Large and small gradients, and both ends of a tie on one rank: copies first, then the tie.
TEST_F(CompletionTest, SumsTheTwoCopiesOfTheModel) {
    groups_.copies = std::make_unique<FakeGroup>(2);
    made_.add({9, 4}).tie_group = 0;
    made_.add({200, 100});
    model::Parameter& head = made_.add({9, 4});
    head.tie_group = 0;
    head.weight = made_.list[0].weight;
    run();
    for (std::size_t i = 0; i < before_[0].size(); ++i)
        EXPECT_EQ(made_.list[0].gradient.as<float>()[i], 2 * before_[0][i] + 2 * before_[2][i]);
    expect_times(1, 2.0f);
}

TEST_F(CompletionTest, RefusesATiedEntryWithoutItsOtherCopy) {
    made_.add({9, 4}).tie_group = 0;
    EXPECT_THROW(run(), InternalError);
}

class GradientNormTest : public CompletionTest {
 protected:
    double norm(int global_entries = 8) {
        device::Arenas measured = device::Arenas::measuring();
        GradientNorm(made_.list, global_entries, groups_, runner_.ops, *device_, measured);
        device::Arenas arenas =
            device::Arenas::allocated(measured, device_->allocator(), device_->host_allocator());
        GradientNorm norm(made_.list, global_entries, groups_, runner_.ops, *device_, arenas);
        EXPECT_EQ(arenas.used(), measured.used());
        norm.queue(runner_.context);
        return norm.finish();
    }
    double sum_of_squares(std::size_t entry) {
        double sum = 0.0;
        for (float g : values(made_.list[entry].gradient)) sum += static_cast<double>(g) * g;
        return sum;
    }
};

TEST_F(GradientNormTest, CountsEveryCountedEntryOnce) {
    made_.add({123, 45});
    made_.add({17}).counted = false;
    made_.add({1});
    made_.fill();
    EXPECT_NEAR(norm(), std::sqrt(sum_of_squares(0) + sum_of_squares(2)), 1e-9);
}

TEST_F(GradientNormTest, DoesNotDependOnTheOrderInTheList) {
    for (int i = 0; i < 6; ++i) made_.add({50 + i});
    made_.fill();
    const double expected = norm();
    std::reverse(made_.list.begin(), made_.list.end());
    EXPECT_EQ(norm(), expected);
}

TEST_F(GradientNormTest, ANonFiniteGradientShows) {
    made_.add({50});
    made_.add({50});
    for (float bad : {NAN, INFINITY, -INFINITY}) {
        made_.fill();
        made_.list[1].gradient.as<float>()[49] = bad;
        EXPECT_FALSE(std::isfinite(norm()));
    }
}

TEST_F(GradientNormTest, LargeFiniteGradientsDoNotOverflow) {
    made_.add({2});
    for (int i = 0; i < 2; ++i) made_.list[0].gradient.as<float>()[i] = 3e38f;
    EXPECT_NEAR(norm() / (3e38f * std::sqrt(2.0)), 1.0, 1e-12);
}

TEST_F(GradientNormTest, TwoCountedEntriesOfOneIndexAreAnError) {
    made_.add({5});
    made_.add({5}).global_index = 0;
    made_.fill();
    EXPECT_THROW(norm(), InternalError);
}

TEST(ClipCoefficient, ScalesDownOnly) {
    EXPECT_EQ(clip_coefficient(0.5, 1.0), 1.0f);
    EXPECT_FLOAT_EQ(clip_coefficient(4.0, 1.0), static_cast<float>(1.0 / (4.0 + 1e-6)));
    EXPECT_EQ(clip_coefficient(1e9, 0.0), 1.0f);
    EXPECT_EQ(clip_coefficient(0.0, 1.0), 1.0f);
}

}  // namespace
}  // namespace escalier::optim
