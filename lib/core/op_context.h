// What every op takes first: where it runs. CPU twins read the pool and the scratch; CUDA twins the queue and
// the scratch.
#pragma once

#include <cstddef>

#include "core/check.h"
#include "core/compute_pool.h"

namespace escalier {

struct DeviceQueue;  // where a device backend queues its work: kernels/common/cuda_queue.h

class OpContext {
 public:
    // scratch: `scratch_per_thread` bytes for each thread of the pool, 256-byte aligned, owned by an arena.
    OpContext(ComputePool& pool, void* scratch, std::size_t scratch_per_thread)
        : pool_(&pool),
          scratch_(static_cast<char*>(scratch)),
          scratch_per_thread_(scratch_per_thread),
          scratch_bytes_(scratch_per_thread * static_cast<std::size_t>(pool.threads())) {}
    // scratch: `scratch_bytes` of the device's memory. Ops of one queue run one after the other and share it.
    OpContext(ComputePool& pool, void* scratch, std::size_t scratch_bytes, DeviceQueue& queue)
        : pool_(&pool),
          scratch_(static_cast<char*>(scratch)),
          scratch_per_thread_(0),
          scratch_bytes_(scratch_bytes),
          queue_(&queue) {}

    ComputePool& pool() const { return *pool_; }
    DeviceQueue& queue() const {
        ESCALIER_CHECK(queue_ != nullptr, "this context belongs to no device queue");
        return *queue_;
    }
    // The scratch of one thread of the pool; contents are undefined at the start of an op.
    template <class T>
    T* scratch(int thread, std::size_t elements) const {
        ESCALIER_CHECK(elements * sizeof(T) <= scratch_per_thread_, "op scratch is too small");
        return reinterpret_cast<T*>(scratch_ + static_cast<std::size_t>(thread) * scratch_per_thread_);
    }
    // All scratch as one piece, for use outside a parallel loop.
    template <class T>
    T* shared_scratch(std::size_t elements) const {
        ESCALIER_CHECK(elements * sizeof(T) <= scratch_bytes_, "op scratch is too small");
        return reinterpret_cast<T*>(scratch_);
    }

 private:
    ComputePool* pool_;
    char* scratch_;
    std::size_t scratch_per_thread_;
    std::size_t scratch_bytes_;
    DeviceQueue* queue_ = nullptr;
};

}  // namespace escalier
