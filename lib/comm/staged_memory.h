// Pinned host memory with an owner.
#pragma once

#include <string>
#include <utility>

#include "device/device.h"

namespace escalier::comm {

class StagedMemory {
 public:
    StagedMemory() = default;
    StagedMemory(device::Device& device, std::size_t bytes, const std::string& what)
        : allocator_(&device.host_allocator()), data_(allocator_->allocate(bytes, what)), bytes_(bytes) {}
    ~StagedMemory() {
        if (data_) allocator_->free(data_, bytes_);
    }
    StagedMemory(StagedMemory&& other) noexcept { *this = std::move(other); }
    StagedMemory& operator=(StagedMemory&& other) noexcept {
        std::swap(allocator_, other.allocator_);
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    char* data() const { return static_cast<char*>(data_); }
    std::size_t bytes() const { return bytes_; }

 private:
    device::Allocator* allocator_ = nullptr;
    void* data_ = nullptr;
    std::size_t bytes_ = 0;
};

}  // namespace escalier::comm
