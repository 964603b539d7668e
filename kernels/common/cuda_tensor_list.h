// One launch over many tensors: the list travels in the kernel's parameters, and each tensor gets its blocks.
#pragma once

#include "kernels/common/cuda_chunks.h"
#include "kernels/common/cuda_scratch.h"

namespace escalier::kernels::cuda {

// Where the blocks of a launch belong: those of tensor i are [first_block[i], first_block[i + 1]).
struct BlockList {
    int count = 0;
    int first_block[tensors_per_launch + 1] = {};

    int blocks() const { return first_block[count]; }
    void add(std::int64_t blocks) {
        ESCALIER_CHECK(count < tensors_per_launch, "the list of tensors is full");
        const std::int64_t end = first_block[count] + blocks;
        ESCALIER_CHECK(end <= INT32_MAX, "too many blocks");
        first_block[++count] = static_cast<int>(end);
    }
    // The tensor of this block: the last one that begins at or before it.
    __device__ __forceinline__ int tensor() const {
        int low = 0, high = count;
        while (high - low > 1) {
            const int middle = (low + high) / 2;
            (static_cast<int>(blockIdx.x) < first_block[middle] ? high : low) = middle;
        }
        return low;
    }
};

// Four neighbouring floats, of which `count` are there; others read as zero and are not written.
__device__ __forceinline__ Vector<float> load_up_to_four(const float* from, std::int64_t count,
                                                         bool aligned) {
    if (aligned && count >= Vector<float>::size) return Vector<float>::load(from);
    Vector<float> out{};
#pragma unroll
    for (int i = 0; i < Vector<float>::size; ++i)
        if (i < count) out[i] = from[i];
    return out;
}
__device__ __forceinline__ void store_up_to_four(float* to, const Vector<float>& values, std::int64_t count,
                                                 bool aligned) {
    if (aligned && count >= Vector<float>::size) return values.store(to);
#pragma unroll
    for (int i = 0; i < Vector<float>::size; ++i)
        if (i < count) to[i] = values[i];
}

inline bool aligned_to(std::size_t bytes, std::initializer_list<const void*> addresses) {
    for (const void* address : addresses)
        if (reinterpret_cast<std::uintptr_t>(address) % bytes != 0) return false;
    return true;
}

}  // namespace escalier::kernels::cuda
