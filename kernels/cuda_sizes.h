// What the CUDA backend takes of memory for given sizes. Host code without CUDA: plans ask it where there is
// none.
#pragma once

#include <cstddef>

#include "kernels/ops.h"

namespace escalier::kernels {

// Bytes of device memory that any op needs as the scratch of its context, 256-byte aligned.
std::size_t cuda_scratch_bytes(const WorkExtent& extent);

namespace cuda {

PreparedWeightElements prepared_weight_elements;
// Device memory that matrix products share (common/cuda_matmul.h).
inline constexpr std::size_t matmul_workspace_bytes = std::size_t{32} << 20;

}  // namespace cuda

}  // namespace escalier::kernels
