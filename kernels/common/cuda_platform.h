// CUDA's own headers under nvcc, their stand-ins under g++ (found through the include path of tests/).
#pragma once

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_runtime.h>

// Declares `T* const name`, the launch's dynamic shared memory, 1024-byte aligned.
#define ESCALIER_DYNAMIC_SHARED(T, name)                                       \
    extern __shared__ __align__(1024) unsigned char escalier_dynamic_shared[]; \
    T* const name = reinterpret_cast<T*>(escalier_dynamic_shared)

namespace escalier::kernels::cuda {

// 16 bytes by one instruction; the address is 16-byte aligned.
__device__ __forceinline__ uint4 load16(const void* from) {
    return *static_cast<const uint4*>(from);
}
// As one integer: nvcc may store the members of a uint4 one by one (seen beside branches: four times 4
// bytes).
__device__ __forceinline__ void store16(void* to, uint4 bits) {
    unsigned __int128 whole;
    memcpy(&whole, &bits, sizeof whole);
    *static_cast<unsigned __int128*>(to) = whole;
}

}  // namespace escalier::kernels::cuda
#else
#include <cuda_emulation/device.h>

#define ESCALIER_DYNAMIC_SHARED(T, name) \
    T* const name = static_cast<T*>(::escalier::cuda_emulation::dynamic_shared())

namespace escalier::kernels::cuda {

using cuda_emulation::load16;
using cuda_emulation::store16;

}  // namespace escalier::kernels::cuda
#endif
