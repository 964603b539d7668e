// What a backend must offer beyond its op table: memory of its kinds and copies between them and the host.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "device/arena.h"

namespace escalier::device {

class Device {
 public:
    virtual ~Device() = default;
    virtual std::string description() const = 0;  // for the rank table
    virtual Allocator& allocator() = 0;           // for arenas that ops work on
    virtual void copy_to_host(void* host, const void* device, std::size_t bytes) = 0;
    virtual void copy_from_host(void* device, const void* host, std::size_t bytes) = 0;
    // Waits until all queued work is done; on the CPU there is none.
    virtual void synchronize() = 0;
};

// Host memory, in huge pages where the kernel grants them.
std::unique_ptr<Device> make_cpu_device();

}  // namespace escalier::device
