// Bytes a row of C columns, s bytes an element: embedding_forward reads 4C and writes sC, position_forward
// moves 2sC. position_backward reads sC a row and writes 4C a position. Floor: those at the speed of memory,
// of which 80 % is expected.
//
// embedding_backward sorts the rows by token first, ties by row: every row counts those before it, R^2 / 32
// comparisons of a warp, about 20 us for 16384 rows on an H200 and 80 us for 32768. Then a warp takes a
// token and adds its rows in ascending order: sC a row, 8C a token that occurs; overwrite writes the table
// once more. A token that fills a twentieth of 16384 rows keeps its warps about 60 us. Expected: 3 times the
// floor.
#include "kernels/embedding.h"

#include "kernels/common/cuda_chunks.h"
#include "kernels/common/cuda_scratch.h"
#include "kernels/common/cuda_twins.h"

namespace escalier::kernels::cuda {
namespace {

template <class Chunk, class S = ElementOf<Chunk>>
__global__ void embedding_forward_kernel(S* out, const std::int32_t* tokens, const float* table,
                                         std::int64_t rows, std::int64_t columns, std::int64_t vocab_begin,
                                         std::int64_t vocabulary) {
    for_own_rows(rows, [&](std::int64_t row) {
        const std::int64_t id = tokens[row] - vocab_begin;
        const bool own = id >= 0 && id < vocabulary;
        float values[sweep_chunks][Chunk::size] = {};
        sweep_row<Chunk>(
            columns,
            [&](int slot, std::int64_t column) {
                if (own) load_floats(values[slot], table + id * columns + column);
            },
            [&](int slot, std::int64_t column) { store_floats(out + row * columns + column, values[slot]); });
    });
}

constexpr int slice_tokens = 256,
              tile_tokens = slice_tokens * row_warps;  // of a warp, in shared memory at a time

// How many of the slice's tokens `counts(token, i)` says yes to.
template <class Counts>
__device__ __forceinline__ int count_tokens(const std::int32_t* slice, Counts counts) {
    constexpr int width = Vector<std::int32_t>::size;
    int count = 0;
#pragma unroll 8
    for (int first = 0; first < slice_tokens; first += width) {
        const auto tokens = Vector<std::int32_t>::load(slice + first);
#pragma unroll
        for (int i = 0; i < width; ++i) count += counts(tokens[i], first + i) ? 1 : 0;
    }
    return count;
}

// order: the rows, by token and then by row; sorted: their tokens. A block finds the places of 32 rows.
__global__ void sort_rows_kernel(std::int32_t* order, std::int32_t* sorted, const std::int32_t* tokens,
                                 int rows) {
    alignas(16) __shared__ std::int32_t tile[tile_tokens];
    __shared__ int counts[row_warps][32];
    const int warp = static_cast<int>(threadIdx.x / 32), lane = lane_of_warp();
    const int first = static_cast<int>(blockIdx.x) * 32, row = first + lane;
    const std::int32_t own = row < rows ? tokens[row] : 0;
    int count = 0;
    for (int begin = 0; begin < rows; begin += tile_tokens) {
        __syncthreads();
        for (int i = static_cast<int>(threadIdx.x); i < tile_tokens; i += row_warps * 32)
            tile[i] = begin + i < rows ? tokens[begin + i] : INT32_MAX;
        __syncthreads();
        const std::int32_t* slice = tile + warp * slice_tokens;
        const int slice_begin = begin + warp * slice_tokens;
        // Of an equal token, rows before count and rows after do not; the block's own rows are in one slice.
        if (slice_begin + slice_tokens <= first)
            count += count_tokens(slice, [&](std::int32_t other, int) { return other <= own; });
        else if (slice_begin >= first + 32)
            count += count_tokens(slice, [&](std::int32_t other, int) { return other < own; });
        else
            count += count_tokens(slice, [&](std::int32_t other, int i) {
                return other < own || (other == own && slice_begin + i < row);
            });
    }
    counts[warp][lane] = count;
    __syncthreads();
    if (warp != 0 || row >= rows) return;
    int place = 0;
    for (int part = 0; part < row_warps; ++part) place += counts[part][lane];
    order[place] = row;
    sorted[place] = own;
}

// A warp takes one place of the sorted rows and the columns of 32 chunks; it works if its token begins there.
template <class Chunk, class S = ElementOf<Chunk>>
__global__ void embedding_backward_kernel(float* dtable, const std::int32_t* order,
                                          const std::int32_t* sorted, const S* dout, std::int64_t rows,
                                          std::int64_t columns, std::int64_t vocab_begin,
                                          std::int64_t vocabulary) {
    constexpr int together = 8;
    const std::int64_t tiles = (columns + 32 * Chunk::size - 1) / (32 * Chunk::size);
    const std::int64_t item = std::int64_t{blockIdx.x} * row_warps + threadIdx.x / 32;
    const std::int64_t place = item / tiles, column = (item % tiles * 32 + lane_of_warp()) * Chunk::size;
    if (place >= rows || column >= columns) return;
    const std::int32_t token = sorted[place];
    const std::int64_t id = token - vocab_begin;
    if ((place > 0 && sorted[place - 1] == token) || id < 0 || id >= vocabulary) return;

    float sum[Chunk::size];
    float* const out = dtable + id * columns + column;
    load_floats(sum, out);
    bool more = true;
    for (std::int64_t next = place; more; next += together) {
        Chunk chunks[together];
        bool same[together];
#pragma unroll
        for (int i = 0; i < together; ++i) {
            same[i] = next + i < rows && sorted[next + i] == token;
            if (same[i]) chunks[i] = Chunk::load(dout + order[next + i] * columns + column);
        }
#pragma unroll
        for (int i = 0; i < together; ++i) {
            if (!same[i]) continue;
#pragma unroll
            for (int j = 0; j < Chunk::size; ++j) sum[j] += to_float(chunks[i][j]);
        }
        more = same[together - 1];
    }
    store_floats(out, sum);
}

template <class Chunk, class S = ElementOf<Chunk>>
__global__ void position_forward_kernel(S* x, const float* positions, std::int64_t rows, std::int64_t columns,
                                        std::int64_t sequence) {
    for_own_rows(rows, [&](std::int64_t row) {
        const float* const own = positions + row % sequence * columns;
        Chunk chunks[sweep_chunks];
        sweep_row<Chunk>(
            columns,
            [&](int slot, std::int64_t column) { chunks[slot] = Chunk::load(x + row * columns + column); },
            [&](int slot, std::int64_t column) {
                float place[Chunk::size];
                load_floats(place, own + column);
#pragma unroll
                for (int i = 0; i < Chunk::size; ++i)
                    chunks[slot][i] = from_float<S>(to_float(chunks[slot][i]) + place[i]);
                chunks[slot].store(x + row * columns + column);
            });
    });
}

// A warp takes one position and the columns of 32 chunks, and adds the samples in order.
template <class Chunk, class S = ElementOf<Chunk>>
__global__ void position_backward_kernel(float* dpositions, const S* dout, std::int64_t positions,
                                         std::int64_t rows, std::int64_t columns, std::int64_t sequence,
                                         bool accumulate) {
    const std::int64_t tiles = (columns + 32 * Chunk::size - 1) / (32 * Chunk::size);
    const std::int64_t item = std::int64_t{blockIdx.x} * row_warps + threadIdx.x / 32;
    const std::int64_t position = item / tiles, column = (item % tiles * 32 + lane_of_warp()) * Chunk::size;
    if (position >= positions || column >= columns) return;
    float sum[Chunk::size] = {};
    float* const out = dpositions + position * columns + column;
    if (accumulate) load_floats(sum, out);
    if (position < sequence) {
#pragma unroll 8
        for (std::int64_t row = position; row < rows; row += sequence) {
            const Chunk chunk = Chunk::load(dout + row * columns + column);
#pragma unroll
            for (int i = 0; i < Chunk::size; ++i) sum[i] += to_float(chunk[i]);
        }
    }
    store_floats(out, sum);
}

// Blocks for one warp to each of `rows` times the pieces of 32 chunks that a row has.
template <class Chunk>
std::int64_t piece_blocks(std::int64_t rows, std::int64_t columns) {
    return ceil_div(rows * ceil_div(columns, std::int64_t{32} * Chunk::size), row_warps);
}

}  // namespace

void embedding_forward(const OpContext& context, TensorView out, TensorView tokens, TensorView table,
                       std::int64_t vocab_begin) {
    const std::int64_t rows = tokens.elements(), columns = columns_of(table);
    ESCALIER_CHECK(out.elements() == rows * columns, "shapes differ");
    if (rows == 0) return;
    dispatch_chunk(out.dtype(), vectors_fit(out.dtype(), columns, {out, table}), [&]<class Chunk>() {
        launch(embedding_forward_kernel<Chunk>, row_grid(context, rows), row_warps * 32, 0,
               context.queue().stream, data_as<ElementOf<Chunk>>(out), tokens.as<std::int32_t>(),
               table.as<float>(), rows, columns, vocab_begin, rows_of(table));
    });
}

void embedding_backward(const OpContext& context, TensorView dtable, TensorView tokens, TensorView dout,
                        std::int64_t vocab_begin, Accumulate accumulate) {
    const std::int64_t rows = tokens.elements(), columns = columns_of(dtable);
    ESCALIER_CHECK(dout.elements() == rows * columns, "shapes differ");
    ESCALIER_CHECK(rows <= INT32_MAX - tile_tokens, "too many rows");
    if (accumulate == Accumulate::overwrite) fill(context, dtable, 0.0f);
    if (rows == 0) return;
    auto* order = context.shared_scratch<std::int32_t>(embedding_scratch_bytes(rows) / sizeof(std::int32_t));
    std::int32_t* sorted = order + rows;
    const cudaStream_t stream = context.queue().stream;
    launch(sort_rows_kernel, ceil_div(rows, 32), row_warps * 32, 0, stream, order, sorted,
           tokens.as<std::int32_t>(), static_cast<int>(rows));
    dispatch_chunk(dout.dtype(), vectors_fit(dout.dtype(), columns, {dout, dtable}), [&]<class Chunk>() {
        launch(embedding_backward_kernel<Chunk>, piece_blocks<Chunk>(rows, columns), row_warps * 32, 0,
               stream, dtable.as<float>(), order, sorted, data_as<ElementOf<Chunk>>(dout), rows, columns,
               vocab_begin, rows_of(dtable));
    });
}

void position_forward(const OpContext& context, TensorView x, TensorView positions, std::int64_t sequence) {
    const std::int64_t rows = rows_of(x), columns = columns_of(x);
    ESCALIER_CHECK(columns_of(positions) == columns && rows_of(positions) >= std::min(sequence, rows),
                   "positions do not fit");
    if (rows == 0) return;
    dispatch_chunk(x.dtype(), vectors_fit(x.dtype(), columns, {x, positions}), [&]<class Chunk>() {
        launch(position_forward_kernel<Chunk>, row_grid(context, rows), row_warps * 32, 0,
               context.queue().stream, data_as<ElementOf<Chunk>>(x), positions.as<float>(), rows, columns,
               sequence);
    });
}

void position_backward(const OpContext& context, TensorView dpositions, TensorView dout,
                       std::int64_t sequence, Accumulate accumulate) {
    const std::int64_t rows = rows_of(dout), columns = columns_of(dpositions);
    const std::int64_t positions = rows_of(dpositions);
    ESCALIER_CHECK(columns_of(dout) == columns && positions >= std::min(sequence, rows),
                   "positions do not fit");
    if (positions == 0) return;
    const bool vectors = vectors_fit(dout.dtype(), columns, {dout, dpositions});
    dispatch_chunk(dout.dtype(), vectors, [&]<class Chunk>() {
        launch(position_backward_kernel<Chunk>, piece_blocks<Chunk>(positions, columns), row_warps * 32, 0,
               context.queue().stream, dpositions.as<float>(), data_as<ElementOf<Chunk>>(dout), positions,
               rows, columns, sequence, accumulate == Accumulate::add);
    });
}

}  // namespace escalier::kernels::cuda
