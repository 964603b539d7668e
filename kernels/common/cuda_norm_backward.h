// The gradient of LayerNorm (centre) and RMSNorm, shared by their two op files.
//
// A block takes a fixed range of rows, a thread fixed columns of them, whose gradients of gain and bias it
// keeps until the range is done; their sums over the blocks follow in order. Rows of up to 1024 chunks are
// held in registers, `together` of them at a time, and read once. Wider ones are read a second time, from the
// caches, and the gradients of gain and bias lie in shared memory.
#pragma once

#include "kernels/common/cuda_chunks.h"
#include "kernels/common/cuda_column_sums.h"

namespace escalier::kernels::cuda {

template <class S>
struct NormBackward {
    S* dx;
    const S *dresidual, *dy, *x;  // dresidual may be null
    const float *mean, *rstd, *weight;
    std::int64_t rows, columns;
    std::int64_t rows_per_block = 0;                         // these three are set by
    float *dweight_parts = nullptr, *dbias_parts = nullptr;  // launch_norm_backward: [blocks, C]
};

inline constexpr int norm_backward_threads = 512;

// Each of the sums over the whole block, with one barrier for all of them.
template <int values>
__device__ __forceinline__ void block_sums(float (&sums)[values], float (*shared)[values]) {
    const int warps = static_cast<int>(blockDim.x / 32);
#pragma unroll
    for (int i = 0; i < values; ++i) sums[i] = warp_sum(sums[i]);
    if (lane_of_warp() == 0) {
#pragma unroll
        for (int i = 0; i < values; ++i) shared[threadIdx.x / 32][i] = sums[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < values; ++i) {
        sums[i] = shared[0][i];
        for (int warp = 1; warp < warps; ++warp) sums[i] += shared[warp][i];
    }
}

// One row's part of the sums and of the gains' gradients, by the columns of one chunk.
template <bool centre, class Chunk>
__device__ __forceinline__ void add_norm_chunk(float& sum_g, float& sum_gn, float (&dweight)[Chunk::size],
                                               float (&dbias)[Chunk::size], const Chunk& dy, const Chunk& x,
                                               float mean, float rstd, const float (&weight)[Chunk::size]) {
#pragma unroll
    for (int i = 0; i < Chunk::size; ++i) {
        const float d = to_float(dy[i]), normal = (to_float(x[i]) - mean) * rstd, g = d * weight[i];
        if constexpr (centre) sum_g += g;
        sum_gn += g * normal;
        dweight[i] += d * normal;
        if constexpr (centre) dbias[i] += d;
    }
}
// dx of one chunk; past: the residual's gradient, where there is one.
template <class Chunk>
__device__ __forceinline__ Chunk norm_chunk_gradient(const Chunk& dy, const Chunk& x, const Chunk& past,
                                                     bool has_past, float mean, float rstd,
                                                     const float (&weight)[Chunk::size], float mean_g,
                                                     float mean_gn) {
    using S = ElementOf<Chunk>;
    Chunk out;
#pragma unroll
    for (int i = 0; i < Chunk::size; ++i) {
        const float normal = (to_float(x[i]) - mean) * rstd, g = to_float(dy[i]) * weight[i];
        float dx = (g - mean_g - normal * mean_gn) * rstd;
        if (has_past) dx += to_float(past[i]);
        out[i] = from_float<S>(dx);
    }
    return out;
}

template <bool centre, class Chunk, int chunks, class S = ElementOf<Chunk>>
__global__ void __launch_bounds__(norm_backward_threads) norm_backward_kernel(NormBackward<S> a) {
    constexpr int width = Chunk::size, together = chunks == 1 ? 2 : 1, values = 2 * together;
    // Two buffers in turn: whoever writes one again has passed the barrier after which it was last read.
    __shared__ float shared[2][norm_backward_threads / 32][values];
    const auto column_of = [&](int c) {
        return (std::int64_t{threadIdx.x} + std::int64_t{c} * blockDim.x) * width;
    };
    float weight[chunks][width] = {}, dweight[chunks][width] = {}, dbias[chunks][width] = {};
#pragma unroll
    for (int c = 0; c < chunks; ++c)
        if (column_of(c) < a.columns) load_floats(weight[c], a.weight + column_of(c));

    const std::int64_t begin = blockIdx.x * a.rows_per_block;
    const std::int64_t end = begin + a.rows_per_block < a.rows ? begin + a.rows_per_block : a.rows;
    const auto count = static_cast<float>(a.columns);
    int buffer = 0;
    for (std::int64_t first = begin; first < end; first += together, buffer ^= 1) {
        Chunk dy[together][chunks], x[together][chunks], past[together][chunks];
        float mean[together], rstd[together], sums[values] = {};
        const auto for_chunks = [&](auto body) {  // of the rows that there are
#pragma unroll
            for (int r = 0; r < together; ++r)
#pragma unroll
                for (int c = 0; c < chunks; ++c)
                    if (first + r < end && column_of(c) < a.columns)
                        body(r, c, (first + r) * a.columns + column_of(c));
        };
#pragma unroll
        for (int r = 0; r < together; ++r) {
            const std::int64_t row = first + r < end ? first + r : begin;
            mean[r] = centre ? a.mean[row] : 0.0f;
            rstd[r] = a.rstd[row];
        }
        for_chunks([&](int r, int c, std::int64_t at) {
            dy[r][c] = Chunk::load_streaming(a.dy + at);
            x[r][c] = Chunk::load_streaming(a.x + at);
            if (a.dresidual) past[r][c] = Chunk::load(a.dresidual + at);
        });
        for_chunks([&](int r, int c, std::int64_t) {
            add_norm_chunk<centre>(sums[2 * r], sums[2 * r + 1], dweight[c], dbias[c], dy[r][c], x[r][c],
                                   mean[r], rstd[r], weight[c]);
        });
        block_sums(sums, shared[buffer]);
        for_chunks([&](int r, int c, std::int64_t at) {
            norm_chunk_gradient(dy[r][c], x[r][c], past[r][c], a.dresidual != nullptr, mean[r], rstd[r],
                                weight[c], sums[2 * r] / count, sums[2 * r + 1] / count)
                .store(a.dx + at);
        });
    }
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
        if (column_of(c) >= a.columns) continue;
        const std::int64_t at = blockIdx.x * a.columns + column_of(c);
        store_floats(a.dweight_parts + at, dweight[c]);
        if constexpr (centre) store_floats(a.dbias_parts + at, dbias[c]);
    }
}

// Rows of any width: one at a time, read twice. Shared memory: [2, stride] floats, each thread its own
// columns.
template <bool centre, class Chunk, class S = ElementOf<Chunk>>
__global__ void __launch_bounds__(norm_backward_threads, 2)
    norm_backward_wide_kernel(NormBackward<S> a, std::int64_t stride) {
    constexpr int width = Chunk::size;
    ESCALIER_DYNAMIC_SHARED(float, gradients);
    __shared__ float shared[2][norm_backward_threads / 32][2];
    const auto for_columns = [&](auto body) {
        for (std::int64_t column = std::int64_t{threadIdx.x} * width; column < a.columns;
             column += std::int64_t{blockDim.x} * width)
            body(column);
    };
    for_columns([&](std::int64_t column) {
        const float zeros[width] = {};
        store_floats(gradients + column, zeros);
        store_floats(gradients + stride + column, zeros);
    });
    const std::int64_t begin = blockIdx.x * a.rows_per_block;
    const std::int64_t end = begin + a.rows_per_block < a.rows ? begin + a.rows_per_block : a.rows;
    const auto count = static_cast<float>(a.columns);
    int buffer = 0;
    for (std::int64_t row = begin; row < end; ++row, buffer ^= 1) {
        const std::int64_t at = row * a.columns;
        const float mean = centre ? a.mean[row] : 0.0f, rstd = a.rstd[row];
        float sums[2] = {};
        for_columns([&](std::int64_t column) {
            float weight[width], dweight[width], dbias[width];
            load_floats(weight, a.weight + column);
            load_floats(dweight, gradients + column);
            load_floats(dbias, gradients + stride + column);
            add_norm_chunk<centre>(sums[0], sums[1], dweight, dbias, Chunk::load(a.dy + at + column),
                                   Chunk::load(a.x + at + column), mean, rstd, weight);
            store_floats(gradients + column, dweight);
            store_floats(gradients + stride + column, dbias);
        });
        block_sums(sums, shared[buffer]);
        for_columns([&](std::int64_t column) {
            float weight[width];
            load_floats(weight, a.weight + column);
            Chunk past;
            if (a.dresidual) past = Chunk::load(a.dresidual + at + column);
            norm_chunk_gradient(Chunk::load(a.dy + at + column), Chunk::load(a.x + at + column), past,
                                a.dresidual != nullptr, mean, rstd, weight, sums[0] / count, sums[1] / count)
                .store(a.dx + at + column);
        });
    }
    for_columns([&](std::int64_t column) {
        float parts[width];
        load_floats(parts, gradients + column);
        store_floats(a.dweight_parts + blockIdx.x * a.columns + column, parts);
        load_floats(parts, gradients + stride + column);
        if constexpr (centre) store_floats(a.dbias_parts + blockIdx.x * a.columns + column, parts);
    });
}

// Host: dx, then the gains' gradients from the parts of all blocks. dbias: of LayerNorm alone.
template <bool centre, class Chunk, class S = ElementOf<Chunk>>
void launch_norm_backward(const OpContext& context, NormBackward<S> a, float* dweight, float* dbias,
                          Accumulate accumulate) {
    const RowCut cut = norm_row_cut(a.rows, a.columns);
    const std::int64_t parts = cut.blocks * a.columns;
    a.rows_per_block = cut.rows_per_block;
    a.dweight_parts = context.shared_scratch<float>(static_cast<std::size_t>(2 * parts));
    a.dbias_parts = a.dweight_parts + parts;
    const std::int64_t chunks = ceil_div(a.columns, Chunk::size);
    const auto threads_for = [&](std::int64_t each) {
        return static_cast<unsigned>(round_up(ceil_div(chunks, each), 32));
    };
    const cudaStream_t stream = context.queue().stream;
    if (cut.blocks > 0 && chunks <= norm_backward_threads) {
        launch(norm_backward_kernel<centre, Chunk, 1>, cut.blocks, threads_for(1), 0, stream, a);
    } else if (cut.blocks > 0 && chunks <= 2 * norm_backward_threads) {
        launch(norm_backward_kernel<centre, Chunk, 2>, cut.blocks, threads_for(2), 0, stream, a);
    } else if (cut.blocks > 0) {
        const std::int64_t stride = round_up(a.columns, Vector<float>::size);
        launch(norm_backward_wide_kernel<centre, Chunk>, cut.blocks, norm_backward_threads,
               static_cast<std::size_t>(2 * stride) * sizeof(float), stream, a, stride);
    }
    add_parts(context, dweight, a.dweight_parts, cut.blocks, a.columns, accumulate);
    if constexpr (centre) add_parts(context, dbias, a.dbias_parts, cut.blocks, a.columns, accumulate);
}

}  // namespace escalier::kernels::cuda
