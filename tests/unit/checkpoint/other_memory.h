#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "device/device.h"

namespace escalier::checkpoint {

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

}  // namespace escalier::checkpoint
