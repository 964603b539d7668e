// What a kernel source sees in place of nvcc: CUDA's real headers, then its language and its device
// functions. kernels/common/cuda_platform.h includes this; nothing else should.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#undef __shared__
#undef __global__
#undef __device__
#undef __host__
#undef __constant__
#undef __forceinline__
#undef __launch_bounds__
#undef __grid_constant__
#define __shared__ ESCALIER_STATIC_SHARED
#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__

#include "cuda_emulation/block.h"
#include "cuda_emulation/instructions.h"
#include "cuda_emulation/intrinsics.h"
#include "cuda_emulation/launch.h"
#include "cuda_emulation/static_shared.h"
#include "cuda_emulation/warp.h"

#define threadIdx (::escalier::cuda_emulation::self->index)
#define blockIdx (::escalier::cuda_emulation::running.index)
#define blockDim (::escalier::cuda_emulation::running.block)
#define gridDim (::escalier::cuda_emulation::running.grid)
inline constexpr int warpSize = 32;
