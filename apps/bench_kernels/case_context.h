// What the ops of a backend run with: scratch of the promised size in its memory, and its queue.
#pragma once

#include "core/compute_pool.h"
#include "core/op_context.h"
#include "device/device.h"

namespace escalier::bench {

class CaseContext {
 public:
    CaseContext(device::Device& device, ComputePool& pool, std::size_t scratch_bytes)
        : device_(device),
          bytes_(scratch_bytes),
          scratch_(device.allocator().allocate(scratch_bytes, "scratch")),
          context_(device.op_context(pool, scratch_, scratch_bytes)) {}
    CaseContext(const CaseContext&) = delete;
    CaseContext& operator=(const CaseContext&) = delete;
    ~CaseContext() { device_.allocator().free(scratch_, bytes_); }

    const OpContext& context() const { return context_; }
    device::Device& device() const { return device_; }

 private:
    device::Device& device_;
    std::size_t bytes_;
    void* scratch_;
    OpContext context_;
};

}  // namespace escalier::bench
