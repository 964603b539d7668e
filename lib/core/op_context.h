// What every op takes first: where it runs. CPU twins read the pool and the scratch; CUDA twins the stream.
#pragma once

#include <cstddef>

#include "core/check.h"
#include "core/compute_pool.h"

namespace escalier {

class OpContext {
 public:
    // scratch: `scratch_per_thread` bytes for each thread of the pool, 256-byte aligned, owned by an arena.
    OpContext(ComputePool& pool, void* scratch, std::size_t scratch_per_thread)
        : pool_(&pool), scratch_(static_cast<char*>(scratch)), scratch_per_thread_(scratch_per_thread) {}

    ComputePool& pool() const { return *pool_; }
    // The scratch of one thread of the pool; contents are undefined at the start of an op.
    template <class T>
    T* scratch(int thread, std::size_t elements) const {
        ESCALIER_CHECK(elements * sizeof(T) <= scratch_per_thread_, "op scratch is too small");
        return reinterpret_cast<T*>(scratch_ + static_cast<std::size_t>(thread) * scratch_per_thread_);
    }
    // All scratch as one piece, for use outside a parallel loop.
    template <class T>
    T* shared_scratch(std::size_t elements) const {
        ESCALIER_CHECK(
            elements * sizeof(T) <= scratch_per_thread_ * static_cast<std::size_t>(pool_->threads()),
            "op scratch is too small");
        return reinterpret_cast<T*>(scratch_);
    }

 private:
    ComputePool* pool_;
    char* scratch_;
    std::size_t scratch_per_thread_;
};

}  // namespace escalier
