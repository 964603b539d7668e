// Sums and maxima over a warp or a block, always in the same order. All lanes of a warp, all threads of a
// block take part (a block is whole warps, at most 32), and all get the result.
#pragma once

#include "kernels/common/cuda_platform.h"

namespace escalier::kernels::cuda {

inline constexpr unsigned whole_warp = 0xffffffffu;

struct Sum {
    template <class T>
    static __device__ __forceinline__ T join(T a, T b) {
        return a + b;
    }
};
struct Max {
    template <class T>
    static __device__ __forceinline__ T join(T a, T b) {
        return a > b || b != b ? a : b;  // the number of the two, like fmaxf
    }
};

template <class Join, class T>
__device__ __forceinline__ T warp_join(T value) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        value = Join::join(value, __shfl_xor_sync(whole_warp, value, distance));
    return value;
}
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
    return warp_join<Sum>(value);
}
template <class T>
__device__ __forceinline__ T warp_max(T value) {
    return warp_join<Max>(value);
}

// shared: 32 elements. A barrier stands before its first write and after the last one.
template <class Join, class T>
__device__ __forceinline__ T block_join(T value, T* shared) {
    const int thread = static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
    const int warps = static_cast<int>(blockDim.x * blockDim.y * blockDim.z) / 32;
    value = warp_join<Join>(value);
    __syncthreads();
    if (thread % 32 == 0) shared[thread / 32] = value;
    __syncthreads();
    T joined = shared[0];
    for (int warp = 1; warp < warps; ++warp) joined = Join::join(joined, shared[warp]);
    return joined;
}
template <class T>
__device__ __forceinline__ T block_sum(T value, T* shared) {
    return block_join<Sum>(value, shared);
}
template <class T>
__device__ __forceinline__ T block_max(T value, T* shared) {
    return block_join<Max>(value, shared);
}

}  // namespace escalier::kernels::cuda
