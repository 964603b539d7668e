// What a backend must offer beyond its op table: memory of its kinds, copies between them and the host, and
// the queue that ops and copies run on.
//
// On a device with memory of its own, ops and copies are queued and run later, one after the other; the host
// goes on at once. On the CPU they are done when they return.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "core/op_context.h"
#include "device/arena.h"

namespace escalier::device {

// Work that was recorded once and can be queued again as a whole.
class Graph {
 public:
    virtual ~Graph() = default;
    virtual void launch() = 0;
};

// All failures are DeviceErrors that name call, code and place.
class Device {
 public:
    virtual ~Device() = default;
    virtual std::string description() const = 0;  // for the rank table
    virtual bool is_host() const = 0;             // ops work in host memory, and at once

    virtual Allocator& allocator() = 0;       // for arenas that ops work on
    virtual Allocator& host_allocator() = 0;  // for what the host fills and reads; the only memory that
                                              // upload() and download() take at the host's end

    // Complete on return, after all queued work. Any host memory; for starting and saving.
    virtual void copy_to_host(void* host, const void* device, std::size_t bytes) = 0;
    virtual void copy_from_host(void* device, const void* host, std::size_t bytes) = 0;
    // Queued: host memory must stay as it is until they have run.
    virtual void upload(void* device, const void* host, std::size_t bytes) = 0;
    virtual void download(void* host, const void* device, std::size_t bytes) = 0;

    virtual bool idle() = 0;         // polls: all queued work is done
    virtual void synchronize() = 0;  // waits for it; inside a step comm's wait_until(idle) is used instead

    // A context whose ops run on this device's queue. scratch: `bytes` of allocator()'s memory.
    virtual OpContext op_context(ComputePool& pool, void* scratch, std::size_t bytes) = 0;

    // Time as the queue sees it: mark() queues a mark; once the queue has passed it, seconds() tells when, on
    // the host's clock (core/clock.h). clear_marks() forgets all of them, when the queue is idle.
    virtual int mark() = 0;
    virtual void reserve_marks(std::size_t count) = 0;  // so many of them then allocate nothing
    virtual double seconds(int mark) = 0;
    virtual void clear_marks() = 0;
    virtual bool progressed() = 0;  // polls: the queue has passed a mark since this was last asked

    // Names what is queued in between, for profilers.
    virtual void begin_range(const char* name) = 0;
    virtual void end_range() = 0;

    // Records what `work` queues, without running it; null where the device has no graphs.
    virtual std::unique_ptr<Graph> capture(const std::function<void()>& work) = 0;
};

// Host memory, in huge pages where the kernel grants them.
std::unique_ptr<Device> make_cpu_device();

}  // namespace escalier::device
