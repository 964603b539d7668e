#include "checkpoint/share_values.h"

#include <gtest/gtest.h>

#include <future>

#include "tests/unit/checkpoint/other_memory.h"

namespace escalier::checkpoint {
namespace {

class ShareValuesTest : public ::testing::Test {
 protected:
    ShareValuesTest() {
        for (std::size_t i = 0; i < values_.size(); ++i) {
            const auto elements = static_cast<std::int64_t>(values_[i].size());
            state_.push_back({"t" + std::to_string(i),
                              StateKind::weight,
                              {elements},
                              false,
                              {{0}, {elements}},
                              true,
                              TensorView(values_[i].data(), DType::f32, {elements})});
        }
    }
    device::Arenas arenas_for(device::Device& device, bool copied) {
        device::Arenas measured = device::Arenas::measuring();
        ShareValues(state_, share_of(state_, 0, 1), copied, device, measured);
        return device::Arenas::allocated(measured, device.allocator(), device.host_allocator());
    }

    std::vector<std::vector<float>> values_ = {{1, 2, 3}, {4}, {5, 6, 7, 8, 9}};
    StateList state_;
    OtherMemory other_;
};

TEST_F(ShareValuesTest, ACopyStaysAsTheStateWas) {
    device::Arenas arenas = arenas_for(other_, true);
    ShareValues values(state_, share_of(state_, 0, 1), true, other_, arenas);
    values.capture();
    const std::vector<std::vector<float>> before = values_;
    for (std::vector<float>& tensor : values_) tensor.assign(tensor.size(), 0.0f);
    for (std::size_t piece = 0; piece < before.size(); ++piece)
        for (std::size_t i = 0; i < before[piece].size(); ++i)
            EXPECT_EQ(values.values(piece)[i], before[piece][i]);
}

TEST_F(ShareValuesTest, TheMainThreadServesWhatTheOtherOneAsksForThroughRoomForOneTensor) {
    device::Arenas arenas = arenas_for(other_, false);
    EXPECT_LE(arenas.staging.used(), device::Arena::alignment);
    ShareValues values(state_, share_of(state_, 0, 1), false, other_, arenas);
    for (int save = 0; save < 2; ++save) {
        values.capture();
        std::future<std::vector<std::vector<float>>> seen = std::async(std::launch::async, [&] {
            std::vector<std::vector<float>> out;
            for (std::size_t piece = 0; piece < values_.size(); ++piece) {
                const float* data = values.values(piece);
                out.emplace_back(data, data + values_[piece].size());
            }
            return out;
        });
        while (seen.wait_for(std::chrono::seconds(0)) != std::future_status::ready) values.serve();
        EXPECT_EQ(seen.get(), values_);
    }
}

TEST_F(ShareValuesTest, WhoWaitsIsSentAwayWhenTheSaveIsGivenUp) {
    device::Arenas arenas = arenas_for(other_, false);
    ShareValues values(state_, share_of(state_, 0, 1), false, other_, arenas);
    values.capture();
    std::future<const float*> asked = std::async(std::launch::async, [&] { return values.values(0); });
    values.stop_waiting();
    EXPECT_EQ(asked.get(), nullptr);
}

}  // namespace
}  // namespace escalier::checkpoint
