#include "kernels/common/cuda_column_sums.h"

#include "kernels/common/cuda_chunks.h"

namespace escalier::kernels::cuda {
namespace {

constexpr int slices = 16;  // of the parts, in add_parts: each summed in order, then the slices in order

__global__ void add_parts_kernel(float* out, const float* parts, std::int64_t count, std::int64_t columns,
                                 bool accumulate) {
    __shared__ float sums[slices][32];
    const std::int64_t column = std::int64_t{blockIdx.x} * 32 + threadIdx.x;
    float sum = 0.0f;
    if (column < columns) {
#pragma unroll 4
        for (std::int64_t part = threadIdx.y; part < count; part += slices)
            sum += parts[part * columns + column];
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || column >= columns) return;
    for (int slice = 1; slice < slices; ++slice) sum += sums[slice][threadIdx.x];
    out[column] = accumulate ? out[column] + sum : sum;
}

// A block: `row_warps` rows at a time of the columns that one warp spans.
template <class Chunk, class S = ElementOf<Chunk>>
__global__ void column_sums_kernel(float* parts, const S* x, std::int64_t rows, std::int64_t columns,
                                   std::int64_t rows_per_block) {
    constexpr int width = Chunk::size, span = 32 * width;
    __shared__ float sums[row_warps][span];
    const int warp = static_cast<int>(threadIdx.x / 32), first = lane_of_warp() * width;
    const std::int64_t column = std::int64_t{blockIdx.x} * span + first;
    const std::int64_t begin = blockIdx.y * rows_per_block;
    const std::int64_t end = begin + rows_per_block < rows ? begin + rows_per_block : rows;
    float sum[width] = {};
    if (column < columns) {
#pragma unroll 8
        for (std::int64_t row = begin + warp; row < end; row += row_warps) {
            const Chunk chunk = Chunk::load(x + row * columns + column);
#pragma unroll
            for (int i = 0; i < width; ++i) sum[i] += to_float(chunk[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < width; ++i) sums[warp][first + i] = sum[i];
    __syncthreads();
    const std::int64_t left = columns - std::int64_t{blockIdx.x} * span;
    for (int i = static_cast<int>(threadIdx.x); i < span && i < left; i += row_warps * 32) {
        float total = sums[0][i];
        for (int other = 1; other < row_warps; ++other) total += sums[other][i];
        parts[blockIdx.y * columns + std::int64_t{blockIdx.x} * span + i] = total;
    }
}

// About 1056 blocks in all: eight to each multiprocessor of an H200. At least 64 rows to a block.
RowCut column_sum_cut(std::int64_t rows, std::int64_t columns, std::int64_t span) {
    constexpr std::int64_t wanted = 1056, least_rows = 64;
    const std::int64_t by_work = std::max<std::int64_t>(1, wanted / ceil_div(columns, span));
    const std::int64_t by_scratch = std::max<std::int64_t>(1, column_sum_elements / columns);
    const std::int64_t per_block = std::max(least_rows, ceil_div(rows, std::min(by_work, by_scratch)));
    return {ceil_div(rows, per_block), per_block};
}

}  // namespace

void add_parts(const OpContext& context, float* out, const float* parts, std::int64_t count,
               std::int64_t columns, Accumulate accumulate) {
    if (columns == 0) return;
    launch(add_parts_kernel, ceil_div(columns, 32), dim3(32, slices), 0, context.queue().stream, out, parts,
           count, columns, accumulate == Accumulate::add);
}

void add_column_sums(const OpContext& context, TensorView out, TensorView x, Accumulate accumulate) {
    const std::int64_t rows = rows_of(x), columns = columns_of(x);
    ESCALIER_CHECK(out.elements() == columns, "shapes differ");
    dispatch_chunk(x.dtype(), vectors_fit(x.dtype(), columns, {x}), [&]<class Chunk>() {
        const std::int64_t span = 32 * Chunk::size;
        const RowCut cut = column_sum_cut(rows, columns, span);
        float* parts = context.shared_scratch<float>(static_cast<std::size_t>(cut.blocks * columns));
        const dim3 grid(static_cast<unsigned>(ceil_div(columns, span)), static_cast<unsigned>(cut.blocks));
        if (rows > 0)
            launch(column_sums_kernel<Chunk>, grid, row_warps * 32, 0, context.queue().stream, parts,
                   data_as<ElementOf<Chunk>>(x), rows, columns, cut.rows_per_block);
        add_parts(context, out.as<float>(), parts, cut.blocks, columns, accumulate);
    });
}

}  // namespace escalier::kernels::cuda
