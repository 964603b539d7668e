// A block of four warps owns 16 rows (queries, or keys in the pass for dk and dv) and loops over tiles of 32
// columns of the other side, all in shared memory as fp32. In the scores a lane is a column; in the products
// that follow, an element of the head.
//
// For fp32 runs and odd head sizes, not for speed. FLOPs as on tensor cores (attention_forward.cu,
// _backward.cu), floor at the fp32 peak (67 TFLOP/s of an H200); two reads of shared memory per product of 32
// lanes keep it under 20 %.
#include "kernels/attention_fma.h"

#include "kernels/common/cuda_queue.h"

namespace escalier::kernels::cuda {
namespace {

constexpr int warps = 4, threads = 32 * warps, warp_rows = 4, row_block = warps * warp_rows,
              column_block = 32;
constexpr int pieces = max_fma_head_size / 32;  // elements of a head that a lane holds

// A tile of rows of a head; one float of padding, so that lanes that read a column each hit different banks.
struct FloatTile {
    float* data;
    int stride;

    FloatTile __device__ __forceinline__ after(int rows) const { return {data + rows * stride, stride}; }
    __device__ __forceinline__ float* row(int index) const { return data + index * stride; }

    // Rows from `valid` on become zero.
    template <class S>
    __device__ __forceinline__ void load(const S* from, int from_stride, int rows, int valid,
                                         int head_size) const {
        for (int at = static_cast<int>(threadIdx.x); at < rows * head_size; at += threads) {
            const int r = at / head_size, i = at % head_size;
            row(r)[i] = r < valid ? to_float(from[static_cast<std::int64_t>(r) * from_stride + i]) : 0.0f;
        }
    }
};

__device__ __forceinline__ float dot(const float* a, const float* b, int n) {
    float sum = 0.0f;
    for (int i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
}

// A warp's rows of a result: lane l holds elements l, l + 32, ... of each.
struct HeadSums {
    float at[warp_rows][pieces];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int r = 0; r < warp_rows; ++r)
#pragma unroll
            for (int i = 0; i < pieces; ++i) at[r][i] = 0.0f;
    }
    // += weights [warp_rows, column_block] times the rows of a tile.
    __device__ __forceinline__ void add_product(const float* weights, const FloatTile& tile, int head_size) {
        const int lane = threadIdx.x % 32;
        for (int column = 0; column < column_block; ++column)
#pragma unroll
            for (int i = 0; i < pieces; ++i) {
                if (lane + 32 * i >= head_size) break;
                const float element = tile.row(column)[lane + 32 * i];
#pragma unroll
                for (int r = 0; r < warp_rows; ++r) at[r][i] += weights[r * column_block + column] * element;
            }
    }
    template <class S>
    __device__ __forceinline__ void store(S* to, int stride, int first_row, int sequence, int head_size,
                                          const float (&factor)[warp_rows]) const {
        const int lane = threadIdx.x % 32;
        for (int r = 0; r < warp_rows && first_row + r < sequence; ++r)
#pragma unroll
            for (int i = 0; i < pieces; ++i)
                if (lane + 32 * i < head_size)
                    to[static_cast<std::int64_t>(first_row + r) * stride + lane + 32 * i] =
                        from_float<S>(at[r][i] * factor[r]);
    }
};

constexpr std::size_t shared_bytes(int tile_rows, int weights, int head_size) {
    return sizeof(float) *
           static_cast<std::size_t>(tile_rows * (head_size + 1) + weights * row_block * column_block);
}

template <class S>
__global__ void __launch_bounds__(threads)
    forward_kernel(AttentionGeometry g, AttentionOrder order, S* out, float* lse, const S* qkv) {
    ESCALIER_DYNAMIC_SHARED(float, shared);
    const FloatTile queries{shared, g.head_size + 1}, keys = queries.after(row_block),
                                                      values = keys.after(column_block);
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = threadIdx.x % 32;
    float* const weights = values.row(column_block) + warp * warp_rows * column_block;
    const AttentionOrder::Place place = order.place();
    const int sample = place.head / g.heads, head = place.head % g.heads, kv_head = head / g.group();
    const int first = (order.blocks - 1 - place.rank) * row_block, first_row = first + warp * warp_rows;
    const std::int64_t stride = g.qkv_stride;

    queries.load(qkv + g.query(sample, head) + first * stride, g.qkv_stride, row_block, g.sequence - first,
                 g.head_size);
    HeadSums sums;
    sums.clear();
    float maximum[warp_rows], sum[warp_rows];
    for (int r = 0; r < warp_rows; ++r) maximum[r] = -INFINITY, sum[r] = 0.0f;
    for (int tile = 0; tile < min(first + row_block, g.sequence); tile += column_block) {
        __syncthreads();
        keys.load(qkv + g.key(sample, kv_head) + tile * stride, g.qkv_stride, column_block, g.sequence - tile,
                  g.head_size);
        values.load(qkv + g.value(sample, kv_head) + tile * stride, g.qkv_stride, column_block,
                    g.sequence - tile, g.head_size);
        __syncthreads();
#pragma unroll
        for (int r = 0; r < warp_rows; ++r) {
            const float product = dot(queries.row(warp * warp_rows + r), keys.row(lane), g.head_size);
            const float score = tile + lane > first_row + r ? -INFINITY : product * g.scale;
            const float largest = fmaxf(maximum[r], warp_max(score));
            const float shrink = fast_exp2((maximum[r] - largest) * log2_of_e);
            const float weight = fast_exp2((score - largest) * log2_of_e);
            maximum[r] = largest;
            sum[r] = sum[r] * shrink + warp_sum(weight);
            weights[r * column_block + lane] = weight;
#pragma unroll
            for (int i = 0; i < pieces; ++i) sums.at[r][i] *= shrink;
        }
        __syncwarp(whole_warp);
        sums.add_product(weights, values, g.head_size);
        __syncwarp(whole_warp);
    }
    float factor[warp_rows];
    for (int r = 0; r < warp_rows; ++r) {
        factor[r] = 1.0f / sum[r];
        if (lane == 0 && first_row + r < g.sequence)
            lse[g.statistic(sample, head) + first_row + r] = maximum[r] + logf(sum[r]);
    }
    sums.store(out + g.out(sample, head), g.out_stride, first_row, g.sequence, g.head_size, factor);
}

template <class S>
struct BackwardViews {
    S* dqkv;
    const S *qkv, *dout;
    AttentionStatistics statistics;
};

// Loads rows [first, first + rows) of queries and dout, or of keys and values.
template <class S>
__device__ __forceinline__ void load_pair(const AttentionGeometry& g, const BackwardViews<S>& views,
                                          FloatTile to_first, FloatTile to_second, bool keys, int sample,
                                          int head, int first, int rows) {
    const std::int64_t row = first;
    const int valid = g.sequence - first;
    to_first.load(views.qkv + (keys ? g.key(sample, head) : g.query(sample, head)) + row * g.qkv_stride,
                  g.qkv_stride, rows, valid, g.head_size);
    if (keys)
        to_second.load(views.qkv + g.value(sample, head) + row * g.qkv_stride, g.qkv_stride, rows, valid,
                       g.head_size);
    else
        to_second.load(views.dout + g.out(sample, head) + row * g.out_stride, g.out_stride, rows, valid,
                       g.head_size);
}

// keys: a block owns keys and values and writes dk and dv; else it owns queries and writes dq.
template <class S, bool keys>
__global__ void __launch_bounds__(threads)
    backward_kernel(AttentionGeometry g, AttentionOrder order, BackwardViews<S> views) {
    ESCALIER_DYNAMIC_SHARED(float, shared);
    const FloatTile first_rows{shared, g.head_size + 1}, second_rows = first_rows.after(row_block);
    const FloatTile first_columns = second_rows.after(row_block),
                    second_columns = first_columns.after(column_block);
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = threadIdx.x % 32;
    float* const probabilities = second_columns.row(column_block) + warp * warp_rows * column_block;
    float* const gradients = probabilities + row_block * column_block;
    const AttentionOrder::Place place = order.place();
    const int row_heads = keys ? g.kv_heads : g.heads, sample = place.head / row_heads,
              head = place.head % row_heads;
    const int first = (keys ? place.rank : order.blocks - 1 - place.rank) * row_block,
              first_row = first + warp * warp_rows;
    const int first_tile = keys ? first / column_block * column_block : 0;
    const int end = keys ? g.sequence : min(first + row_block, g.sequence);
    const int first_head = keys ? head * g.group() : head / g.group(), heads = keys ? g.group() : 1;

    load_pair(g, views, first_rows, second_rows, keys, sample, head, first, row_block);
    HeadSums first_sums, second_sums;
    first_sums.clear();
    second_sums.clear();
    for (int column_head = first_head; column_head < first_head + heads; ++column_head)
        for (int tile = first_tile; tile < end; tile += column_block) {
            __syncthreads();
            load_pair(g, views, first_columns, second_columns, !keys, sample, column_head, tile,
                      column_block);
            __syncthreads();
#pragma unroll
            for (int r = 0; r < warp_rows; ++r) {
                const int row = first_row + r, column = tile + lane, query = keys ? column : row,
                          key = keys ? row : column;
                const float product =
                    dot(first_rows.row(warp * warp_rows + r), first_columns.row(lane), g.head_size);
                const float dprobability =
                    dot(second_rows.row(warp * warp_rows + r), second_columns.row(lane), g.head_size);
                const QueryStatistics of_query =
                    views.statistics.of_head(g, sample, keys ? column_head : head)[query];
                const float probability =
                    key <= query ? fast_exp2(product * (g.scale * log2_of_e) - of_query.lse) : 0.0f;
                const float gradient = probability * (dprobability - of_query.delta);
                probabilities[r * column_block + lane] = probability;
                gradients[r * column_block + lane] = gradient;
            }
            __syncwarp(whole_warp);
            first_sums.add_product(gradients, first_columns, g.head_size);
            if constexpr (keys) second_sums.add_product(probabilities, second_columns, g.head_size);
            __syncwarp(whole_warp);
        }
    const float scales[warp_rows] = {g.scale, g.scale, g.scale, g.scale},
                ones[warp_rows] = {1.0f, 1.0f, 1.0f, 1.0f};
    first_sums.store(views.dqkv + (keys ? g.key(sample, head) : g.query(sample, head)), g.qkv_stride,
                     first_row, g.sequence, g.head_size, scales);
    if constexpr (keys)
        second_sums.store(views.dqkv + g.value(sample, head), g.qkv_stride, first_row, g.sequence,
                          g.head_size, ones);
}

}  // namespace

void fma_attention_forward(const OpContext& context, const AttentionGeometry& g, TensorView out,
                           TensorView lse, TensorView qkv) {
    ESCALIER_CHECK(g.head_size <= max_fma_head_size, "attention takes head sizes up to 256");
    const AttentionOrder order(g, g.heads, row_block);
    dispatch_storage(qkv.dtype(), [&]<class S>() {
        launch(forward_kernel<S>, order.grid(), dim3(threads),
               shared_bytes(row_block + 2 * column_block, 1, g.head_size), context.queue().stream, g, order,
               data_as<S>(out), data_as<float>(lse), data_as<S>(qkv));
    });
}

void fma_attention_backward(const OpContext& context, const AttentionGeometry& g, TensorView dqkv,
                            TensorView dout, TensorView qkv, const AttentionStatistics& statistics) {
    ESCALIER_CHECK(g.head_size <= max_fma_head_size, "attention takes head sizes up to 256");
    const std::size_t bytes = shared_bytes(2 * row_block + 2 * column_block, 2, g.head_size);
    const cudaStream_t stream = context.queue().stream;
    dispatch_storage(qkv.dtype(), [&]<class S>() {
        const BackwardViews<S> views{data_as<S>(dqkv), data_as<S>(qkv), data_as<S>(dout), statistics};
        const AttentionOrder by_query(g, g.heads, row_block), by_key(g, g.kv_heads, row_block);
        launch(backward_kernel<S, false>, by_query.grid(), dim3(threads), bytes, stream, g, by_query, views);
        launch(backward_kernel<S, true>, by_key.grid(), dim3(threads), bytes, stream, g, by_key, views);
    });
}

}  // namespace escalier::kernels::cuda
