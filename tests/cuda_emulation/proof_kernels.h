// Kernels that prove the emulation itself; every wrapper of kernels/common/cuda.h is used by one of them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace escalier::test {

// out[row] = sum of x[row, 0 .. columns)
void row_sums(const float* x, float* out, int rows, int columns, cudaStream_t stream);
// c[m,n] = a[m,k] b[k,n] in bf16 with fp32 accumulation: cp.async in two stages, ldmatrix, mma.sync. Extents
// are multiples of 16, n of 8.
void multiply_bf16(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int m, int n, int k,
                   cudaStream_t stream);

}  // namespace escalier::test
