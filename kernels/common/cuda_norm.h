// LayerNorm (centre) and RMSNorm, shared by their two op files.
//
// Forward: a warp takes a row and keeps it in shared memory, as stored, each lane its own elements; so memory
// is read once. With a residual the row is the stored, rounded sum. Backward: a block takes a fixed range of
// rows, a thread fixed columns of them, whose gradients of gain and bias stay in registers until the range is
// done.
#pragma once

#include "kernels/common/cuda_residual.h"

namespace escalier::kernels::cuda {

template <class S>
struct NormForward {
    S *sum, *y;
    float *mean, *rstd;
    const S *x, *delta;  // x is the residual where there is a delta
    Bias<S> delta_bias;
    const float *weight, *bias;
    std::int64_t rows, columns;
    float eps;
};

// Host: the warps of a block whose rows fit into the shared memory that every launch may have.
template <class S>
int norm_warps(std::int64_t columns) {
    constexpr std::int64_t shared_bytes = 48 * 1024;
    const std::int64_t row_bytes = round_up(columns, Vector<S>::size) * static_cast<std::int64_t>(sizeof(S));
    return static_cast<int>(std::clamp<std::int64_t>(shared_bytes / row_bytes, 1, row_warps));
}

// sum over the row of f(element).
template <class Chunk, class S, class F>
__device__ __forceinline__ float sum_of_row(const S* own, std::int64_t columns, F f) {
    float sum = 0.0f;
    for (std::int64_t column = lane_of_warp() * Chunk::size; column < columns; column += 32 * Chunk::size) {
        const Chunk chunk = Chunk::load(own + column);
#pragma unroll
        for (int i = 0; i < Chunk::size; ++i) sum += f(to_float(chunk[i]));
    }
    return warp_sum(sum);
}

template <bool centre, class Chunk, class S>
__device__ __forceinline__ void normalize_row(const NormForward<S>& a, std::int64_t row, const S* own) {
    const auto count = static_cast<float>(a.columns);
    float mean = 0.0f;
    if constexpr (centre) mean = sum_of_row<Chunk>(own, a.columns, [](float x) { return x; }) / count;
    const float squares =
        sum_of_row<Chunk>(own, a.columns, [mean](float x) { return (x - mean) * (x - mean); });
    const float rstd = 1.0f / sqrtf(squares / count + a.eps);
    for (std::int64_t column = lane_of_warp() * Chunk::size; column < a.columns; column += 32 * Chunk::size) {
        Chunk chunk = Chunk::load(own + column);
        float weight[Chunk::size], bias[Chunk::size];
        load_floats(weight, a.weight + column);
        if constexpr (centre) load_floats(bias, a.bias + column);
#pragma unroll
        for (int i = 0; i < Chunk::size; ++i) {
            const float scaled = (to_float(chunk[i]) - mean) * rstd * weight[i];
            chunk[i] = from_float<S>(centre ? scaled + bias[i] : scaled);
        }
        chunk.store(a.y + row * a.columns + column);
    }
    if (lane_of_warp() == 0) {
        if constexpr (centre) a.mean[row] = mean;
        a.rstd[row] = rstd;
    }
}

template <bool centre, bool residual, class Chunk, class S = ElementOf<Chunk>>
__global__ void __launch_bounds__(row_warps * 32, 2) norm_forward_kernel(NormForward<S> a) {
    ESCALIER_DYNAMIC_SHARED(S, shared);
    const std::int64_t stride = (a.columns + Vector<S>::size - 1) / Vector<S>::size * Vector<S>::size;
    S* const own = shared + threadIdx.x / 32 * stride;
    for_own_rows(a.rows, [&](std::int64_t row) {
        const std::int64_t at = row * a.columns;
        if constexpr (residual) {
            add_residual_row<Chunk>(
                a.sum + at, a.x + at, a.delta + at, a.delta_bias, a.columns,
                [&](std::int64_t column, const Chunk& chunk) { chunk.store(own + column); });
        } else {
            Chunk chunks[sweep_chunks];
            sweep_row<Chunk>(
                a.columns,
                [&](int slot, std::int64_t column) { chunks[slot] = Chunk::load(a.x + at + column); },
                [&](int slot, std::int64_t column) { chunks[slot].store(own + column); });
        }
        normalize_row<centre, Chunk>(a, row, own);
    });
}

template <bool centre, bool residual, class Chunk, class S = ElementOf<Chunk>>
void launch_norm_forward(const OpContext& context, const NormForward<S>& a) {
    const int warps = norm_warps<S>(a.columns);
    const std::int64_t row = round_up(a.columns, Vector<S>::size);
    const auto shared = static_cast<std::size_t>(warps * row) * sizeof(S);
    launch(norm_forward_kernel<centre, residual, Chunk>, row_grid(context, a.rows, warps), warps * 32, shared,
           context.queue().stream, a);
}

}  // namespace escalier::kernels::cuda
