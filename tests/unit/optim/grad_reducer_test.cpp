#include "optim/grad_reducer.h"

#include <gtest/gtest.h>

#include <optional>

#include "device/device.h"
#include "tests/unit/optim/fake_group.h"
#include "tests/unit/optim/parameters.h"

namespace escalier::optim {
namespace {

class GradientReducerTest : public ::testing::Test {
 protected:
    GradientReducerTest() {
        made_.add({5}, 0);
        made_.add({300, 70}, 0);
        made_.add({70}, 0);
        made_.add({0, 70}, 0);
        made_.add({33}, 2);
        made_.add({70, 300}, 2);
        made_.fill();
        for (const model::Parameter& p : made_.list) before_.push_back(values(p.gradient));
    }
    GradientReducer& create(comm::Communicator& dp, ReducerOptions options) {
        const std::vector<int> stages = {0, 2};
        device::Arena measured("communication");
        GradientReducer(made_.list, stages, dp, runner_.ops, measured, options);
        arena_.emplace("communication", device_->allocator(), measured.used());
        reducer_.emplace(made_.list, stages, dp, runner_.ops, *arena_, options);
        EXPECT_EQ(arena_->used(), measured.used());
        return *reducer_;
    }
    void expect_gradients_times(float factor) {
        for (std::size_t entry = 0; entry < before_.size(); ++entry)
            for (std::size_t i = 0; i < before_[entry].size(); ++i)
                ASSERT_EQ(made_.list[entry].gradient.as<float>()[i], before_[entry][i] * factor)
                    << "entry " << entry << " element " << i;
    }

    MadeParameters made_;
    std::vector<std::vector<float>> before_;
    OpRunner runner_;
    std::unique_ptr<device::Device> device_ = device::make_cpu_device();
    std::optional<device::Arena> arena_;
    std::optional<GradientReducer> reducer_;
};

TEST_F(GradientReducerTest, SumsEveryElementOnceWhateverBucketsSlotsAndOrder) {
    float factor = 1.0f;
    for (std::int64_t bucket_elements : {7, 100, 4096, 21000, 1 << 20})
        for (int slots : {1, 3})
            for (int first_chunk : {0, 1}) {
                FakeTraffic traffic;
                FakeGroup dp(2, &traffic);
                GradientReducer& reducer = create(dp, {bucket_elements, slots});
                reducer.start(runner_.context, first_chunk);
                reducer.poll(runner_.context);
                reducer.start(runner_.context, 1 - first_chunk);
                reducer.finish(runner_.context);
                factor *= 2.0f;
                expect_gradients_times(factor);
                EXPECT_LE(traffic.most_under_way, slots);
                EXPECT_EQ(traffic.under_way, 0);
            }
}

TEST_F(GradientReducerTest, PollNeverWaitsAndKeepsAllSlotsBusy) {
    FakeTraffic traffic;
    traffic.finish_on_poll = false;
    FakeGroup dp(2, &traffic);
    GradientReducer& reducer = create(dp, {1000, 3});
    reducer.start(runner_.context, 0);
    for (int i = 0; i < 10; ++i) reducer.poll(runner_.context);
    EXPECT_EQ(traffic.waits, 0);
    EXPECT_EQ(traffic.under_way, 3);
    reducer.start(runner_.context, 1);
    reducer.finish(runner_.context);
    EXPECT_EQ(traffic.under_way, 0);
    expect_gradients_times(2.0f);
}

TEST_F(GradientReducerTest, PollingAloneFinishesAChunk) {
    FakeTraffic traffic;
    FakeGroup dp(2, &traffic);
    GradientReducer& reducer = create(dp, {1000, 2});
    reducer.start(runner_.context, 0);
    for (int i = 0; i < 100; ++i) reducer.poll(runner_.context);
    EXPECT_EQ(traffic.under_way, 0);
    for (std::size_t i = 0; i < before_[1].size(); ++i)
        ASSERT_EQ(made_.list[1].gradient.as<float>()[i], before_[1][i] * 2.0f);
}

TEST_F(GradientReducerTest, RunsStepAfterStep) {
    FakeTraffic traffic;
    FakeGroup dp(2, &traffic);
    GradientReducer& reducer = create(dp, {1000, 2});
    for (int step = 0; step < 3; ++step) {
        reducer.start(runner_.context, 0);
        reducer.start(runner_.context, 1);
        reducer.finish(runner_.context);
    }
    expect_gradients_times(8.0f);
}

TEST_F(GradientReducerTest, AForgottenChunkIsAnError) {
    FakeTraffic traffic;
    FakeGroup dp(2, &traffic);
    GradientReducer& reducer = create(dp, {});
    reducer.start(runner_.context, 0);
    EXPECT_THROW(reducer.finish(runner_.context), InternalError);
}

TEST_F(GradientReducerTest, OneReplicaTakesNothingAndChangesNothing) {
    FakeGroup dp(1);
    GradientReducer& reducer = create(dp, {});
    EXPECT_EQ(arena_->used(), 0u);
    reducer.start(runner_.context, 0);
    reducer.poll(runner_.context);
    reducer.start(runner_.context, 1);
    reducer.finish(runner_.context);
    expect_gradients_times(1.0f);
}

}  // namespace
}  // namespace escalier::optim
