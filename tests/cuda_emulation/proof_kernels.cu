#include "cuda_emulation/proof_kernels.h"

#include "kernels/common/cuda.h"

namespace escalier::test {
namespace {

using namespace kernels::cuda;

__global__ void __launch_bounds__(128)
    row_sums_kernel(const float* __restrict__ x, float* __restrict__ out, int columns) {
    __shared__ float partial[32];
    float sum = 0;
    for (int column = static_cast<int>(threadIdx.x); column < columns; column += static_cast<int>(blockDim.x))
        sum += x[static_cast<std::int64_t>(blockIdx.x) * columns + column];
    sum = block_sum(sum, partial);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

constexpr int tile_m = 16, tile_n = 8, tile_k = 16;

// One warp per 16x8 tile of c.
__global__ void __launch_bounds__(32)
    multiply_kernel(const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b,
                    float* __restrict__ c, int n, int k) {
    ESCALIER_DYNAMIC_SHARED(__nv_bfloat16, shared);  // per stage: a's tile, then b's
    constexpr int stage_elements = tile_m * tile_k + tile_k * tile_n;
    const int lane = static_cast<int>(threadIdx.x);
    const int row0 = static_cast<int>(blockIdx.y) * tile_m, column0 = static_cast<int>(blockIdx.x) * tile_n;
    const auto fetch = [&](int k0, int stage) {
        __nv_bfloat16* to = shared + stage * stage_elements;
        cp_async16(to + lane * 8, a + static_cast<std::int64_t>(row0 + lane / 2) * k + k0 + lane % 2 * 8);
        if (lane < tile_k)
            cp_async16(to + tile_m * tile_k + lane * 8,
                       b + static_cast<std::int64_t>(k0 + lane) * n + column0);
        cp_async_commit();
    };
    float sums[4] = {};
    fetch(0, 0);
    for (int k0 = 0; k0 < k; k0 += tile_k) {
        const int stage = k0 / tile_k % 2;
        if (k0 + tile_k < k) {
            fetch(k0 + tile_k, 1 - stage);
            cp_async_wait<1>();
        } else {
            cp_async_wait<0>();
        }
        __syncthreads();
        const __nv_bfloat16* tile = shared + stage * stage_elements;
        std::uint32_t left[4], right[2];
        ldmatrix_x4(left, tile + lane % 16 * tile_k + lane / 16 * 8);
        ldmatrix_x2_trans(right, tile + tile_m * tile_k + lane % 16 * tile_n);
        mma_bf16(sums, left, right);
        __syncthreads();
    }
    const int row = row0 + lane / 4, column = column0 + lane % 4 * 2;
    for (int half = 0; half < 2; ++half)
        for (int i = 0; i < 2; ++i)
            c[static_cast<std::int64_t>(row + 8 * half) * n + column + i] = sums[2 * half + i];
}

}  // namespace

void row_sums(const float* x, float* out, int rows, int columns, cudaStream_t stream) {
    launch(row_sums_kernel, rows, 128, 0, stream, x, out, columns);
}

void multiply_bf16(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int m, int n, int k,
                   cudaStream_t stream) {
    const std::size_t shared = 2 * sizeof(__nv_bfloat16) * (tile_m * tile_k + tile_k * tile_n);
    launch(multiply_kernel, dim3(static_cast<unsigned>(n / tile_n), static_cast<unsigned>(m / tile_m)), 32,
           shared, stream, a, b, c, n, k);
}

}  // namespace escalier::test
