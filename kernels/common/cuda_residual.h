// The sum of a row that residual_add and the fused norms share, so that they agree bit for bit.
#pragma once

#include "kernels/common/cuda_chunks.h"

namespace escalier::kernels::cuda {

// sum = residual + (delta + bias), one row, by a warp; then seen(column, chunk) for each stored chunk, in the
// lane that stored it. sum may be residual or delta.
template <class Chunk, class S, class Seen>
__device__ __forceinline__ void add_residual_row(S* sum, const S* residual, const S* delta,
                                                 const Bias<S>& bias, std::int64_t columns, Seen seen) {
    Chunk a[sweep_chunks], b[sweep_chunks];
    sweep_row<Chunk>(
        columns,
        [&](int slot, std::int64_t column) {
            a[slot] = Chunk::load(residual + column);
            b[slot] = Chunk::load(delta + column);
        },
        [&](int slot, std::int64_t column) {
            float values[Chunk::size];
#pragma unroll
            for (int i = 0; i < Chunk::size; ++i) values[i] = to_float(b[slot][i]);
            if (bias) bias.template add_to<Chunk>(values, column);
#pragma unroll
            for (int i = 0; i < Chunk::size; ++i)
                a[slot][i] = from_float<S>(to_float(a[slot][i]) + values[i]);
            a[slot].store(sum + column);
            seen(column, a[slot]);
        });
}

}  // namespace escalier::kernels::cuda
