#include "checkpoint/share_values.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace escalier::checkpoint {
namespace {

// The CPU, said to have memory of its own.
class OtherMemory final : public device::Device {
 public:
    std::string description() const override { return "other"; }
    bool is_host() const override { return false; }
    device::Allocator& allocator() override { return cpu_->allocator(); }
    device::Allocator& host_allocator() override { return cpu_->host_allocator(); }
    void copy_to_host(void* host, const void* device, std::size_t bytes) override {
        EXPECT_EQ(std::this_thread::get_id(), main_) << "devices belong to the main thread";
        cpu_->copy_to_host(host, device, bytes);
    }
    void copy_from_host(void* device, const void* host, std::size_t bytes) override {
        cpu_->copy_from_host(device, host, bytes);
    }
    void upload(void* device, const void* host, std::size_t bytes) override {
        cpu_->upload(device, host, bytes);
    }
    void download(void* host, const void* device, std::size_t bytes) override {
        EXPECT_EQ(std::this_thread::get_id(), main_) << "devices belong to the main thread";
        cpu_->download(host, device, bytes);
    }
    bool idle() override { return cpu_->idle(); }
    void synchronize() override { cpu_->synchronize(); }
    OpContext op_context(ComputePool& pool, void* scratch, std::size_t bytes) override {
        return cpu_->op_context(pool, scratch, bytes);
    }
    int mark() override { return cpu_->mark(); }
    void reserve_marks(std::size_t count) override { cpu_->reserve_marks(count); }
    double seconds(int mark) override { return cpu_->seconds(mark); }
    void clear_marks() override { cpu_->clear_marks(); }
    bool progressed() override { return cpu_->progressed(); }
    void begin_range(const char* name) override { cpu_->begin_range(name); }
    void end_range() override { cpu_->end_range(); }
    std::unique_ptr<device::Graph> capture(const std::function<void()>& work) override {
        return cpu_->capture(work);
    }

 private:
    std::unique_ptr<device::Device> cpu_ = device::make_cpu_device();
    std::thread::id main_ = std::this_thread::get_id();
};

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
