// Flash attention backward (Dao 2023) with mma.sync, without atomics: statistics of the queries, then dk and
// dv, then dq, each element summed by one warp in a fixed order.
//
// One kernel for both sides. A block owns 128 rows, queries with dout or keys with values, and loops over
// tiles of the other side, two stages by cp.async. With keys as rows it goes through all query heads of the
// group, one after the other. Scores are recomputed with rows as the owned side, so probabilities and their
// gradients are A operands as they lie in registers: nothing of them goes through shared memory. A warp takes
// 32 rows and 32 columns at a time, or 16 and 64 where two accumulators of 128 columns fill its registers (up
// to 255, no spills).
//
// Clocks of a multiprocessor for one warp's 128 mma.sync at 62 % of the peak, and for the shared memory that
// they read: 206 and 128 for dq of HS 64, whose rows stay in registers; 206 and 192 for dk, dv of HS 64; 206
// and 213 for dq of HS 128; 206 and 288 for dk, dv of HS 128, which is thus bound by shared memory.
//
// FLOPs: 7 T^2 HS for each head of a sample where the gradient has 5 T^2 HS (the causal half of seven
// products, five): recomputing scores and dprobabilities for dq is the price of doing without atomics on
// floats or an ordered wait. Bytes: reads qkv twice, dout three times, out once, writes dqkv: R (7 NH + 6
// NKV) HS elements and 28 R NH of statistics; no limit from T = 512 on. Floor: 5 T^2 HS at the dense bf16
// peak. Expected share of it on an H200: 18 % (HS 64, T 1024) to 24 % (HS 128, T 4096), that is 25 to 33 % in
// what is computed.
#include "kernels/attention.h"
#include "kernels/attention_causal.h"
#include "kernels/attention_fma.h"
#include "kernels/attention_statistics.h"
#include "kernels/common/cuda_queue.h"
#include "kernels/common/cuda_twins.h"

namespace escalier::kernels::cuda {
namespace {

// `side` is what a block of the grid owns; it loops over the other side.
template <int head_size, Rows side>
struct BackwardTiles {
    static constexpr int row_block = 128, stages = 2;
    static constexpr int inner = side == Rows::keys && head_size == 128 ? 64 : 32;
    // Two accumulators of 128 columns leave registers for 16 rows a warp.
    static constexpr int m_tiles = side == Rows::keys && head_size == 128 ? 1 : 2;
    static constexpr int threads = row_block / m_tiles * 2;
    // Two blocks per multiprocessor but for keys of 128 columns.
    static constexpr int column_block = side == Rows::queries && head_size == 128 ? 32 : 64;
    static constexpr int row_elements = SharedTile<head_size>::elements(row_block);
    static constexpr int column_elements = SharedTile<head_size>::elements(column_block);
    static constexpr int statistics = side == Rows::keys ? column_block : 0;  // of a stage
    static constexpr std::size_t shared_bytes =
        (2 * row_elements + stages * 2 * column_elements) * sizeof(__nv_bfloat16) +
        stages * statistics * sizeof(QueryStatistics);
};

struct BackwardViews {
    __nv_bfloat16* dqkv;
    const __nv_bfloat16 *qkv, *dout;
    AttentionStatistics statistics;
};

// The two operands of one side: queries with dout, or keys with values.
struct Pair {
    const __nv_bfloat16 *first, *second;
    int first_stride, second_stride;

    template <Rows side>
    static __device__ __forceinline__ Pair of(const AttentionGeometry& g, const BackwardViews& views,
                                              int sample, int head) {
        if constexpr (side == Rows::queries)
            return {views.qkv + g.query(sample, head), views.dout + g.out(sample, head), g.qkv_stride,
                    g.out_stride};
        else
            return {views.qkv + g.key(sample, head), views.qkv + g.value(sample, head), g.qkv_stride,
                    g.qkv_stride};
    }
    template <int rows, int threads, int width>
    __device__ __forceinline__ void copy_async(SharedTile<width> to_first, SharedTile<width> to_second,
                                               int row, int sequence) const {
        copy_tile_async<rows, threads>(to_first, first + static_cast<std::int64_t>(row) * first_stride,
                                       first_stride, sequence - row);
        copy_tile_async<rows, threads>(to_second, second + static_cast<std::int64_t>(row) * second_stride,
                                       second_stride, sequence - row);
    }
};

template <int head_size, Rows side>
struct BackwardShared {
    using Tiles = BackwardTiles<head_size, side>;
    using Tile = SharedTile<head_size>;
    __nv_bfloat16* memory;

    __device__ __forceinline__ Tile first_rows() const { return {memory}; }
    __device__ __forceinline__ Tile second_rows() const { return {memory + Tiles::row_elements}; }
    __device__ __forceinline__ Tile first_columns(int stage) const {
        return {memory + 2 * Tiles::row_elements + stage * 2 * Tiles::column_elements};
    }
    __device__ __forceinline__ Tile second_columns(int stage) const {
        return {first_columns(stage).data + Tiles::column_elements};
    }
    // Of the columns, where they are queries.
    __device__ __forceinline__ QueryStatistics* statistics(int stage) const {
        return reinterpret_cast<QueryStatistics*>(first_columns(Tiles::stages).data) +
               stage * Tiles::statistics;
    }
};

// What a block and its warp do: rows of one head, against tiles of columns of one or several.
template <int head_size, Rows side>
struct BackwardWork {
    using Tiles = BackwardTiles<head_size, side>;
    int sample, head, first_row, warp_place;
    int first_tile, last_tile, first_head, last_head;  // of the columns

    __device__ __forceinline__ BackwardWork(const AttentionGeometry& g, const AttentionOrder& order) {
        constexpr bool keys = side == Rows::keys;
        const AttentionOrder::Place place = order.place();
        const int row_heads = keys ? g.kv_heads : g.heads;
        sample = place.head / row_heads;
        head = place.head % row_heads;
        first_row = (keys ? place.rank : order.blocks - 1 - place.rank) * Tiles::row_block;
        warp_place = static_cast<int>(threadIdx.x) / 32 * 16 * Tiles::m_tiles;
        const int end = keys ? g.sequence : min(first_row + Tiles::row_block, g.sequence);
        first_tile = keys ? first_row / Tiles::column_block : 0;
        last_tile = (end - 1) / Tiles::column_block;
        first_head = keys ? head * g.group() : head / g.group();
        last_head = keys ? first_head + g.group() - 1 : first_head;
    }
    __device__ __forceinline__ int warp_row() const { return first_row + warp_place; }
};

template <int head_size, Rows side>
struct BackwardWarp {
    using Tiles = BackwardTiles<head_size, side>;
    static constexpr int m_tiles = Tiles::m_tiles, rows = 16 * m_tiles, n_tiles = Tiles::inner / 8;
    static constexpr bool keys = side == Rows::keys;
    static constexpr bool rows_in_registers = side == Rows::queries && head_size == 64;

    RowFragments<m_tiles, rows_in_registers ? head_size : 64> first_rows, second_rows;
    QueryStatistics of_row[m_tiles][2];               // of queries as rows
    Accumulator<m_tiles, head_size / 8> first_sums;   // of the scores' gradients times first
    Accumulator<m_tiles, head_size / 8> second_sums;  // of probabilities times second, for keys as rows

    // Scores of this warp's rows become probabilities; dprobabilities become the gradients of scores without
    // their scale. statistics: of the columns, where they are queries.
    __device__ __forceinline__ void differentiate(Accumulator<m_tiles, n_tiles>& scores,
                                                  Accumulator<m_tiles, n_tiles>& gradients, float scale,
                                                  const QueryStatistics* statistics) const {
#pragma unroll
        for (int m = 0; m < m_tiles; ++m)
#pragma unroll
            for (int n = 0; n < n_tiles; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const QueryStatistics query =
                        keys ? statistics[8 * n + threadIdx.x % 4 * 2 + i % 2] : of_row[m][i / 2];
                    float& p = scores.at[m][n][i];
                    p = fast_exp2(p * (scale * log2_of_e) - query.lse);
                    gradients.at[m][n][i] = p * (gradients.at[m][n][i] - query.delta);
                }
    }
    // Adds what the columns from `begin` of a stage, the first of them at `column` of the sequence,
    // contribute.
    __device__ __forceinline__ void add_columns(const BackwardShared<head_size, side>& shared, int stage,
                                                int begin, float scale, int warp_place, int warp_row,
                                                int column) {
        if (all_masked<side>(warp_row, rows, column, Tiles::inner)) return;
        Accumulator<m_tiles, n_tiles> probabilities, gradients;
        probabilities.clear();
        gradients.clear();
        add_product_transposed(
            probabilities,
            [&](std::uint32_t(&a)[4], int m, int k) {
                if constexpr (rows_in_registers)
                    first_rows.get(a, m, k);
                else
                    load_a(a, shared.first_rows(), warp_place + 16 * m, k);
            },
            shared.first_columns(stage), begin);
        add_product_transposed(
            gradients,
            [&](std::uint32_t(&a)[4], int m, int k) {
                if constexpr (rows_in_registers)
                    second_rows.get(a, m, k);
                else
                    load_a(a, shared.second_rows(), warp_place + 16 * m, k);
            },
            shared.second_columns(stage), begin);
        if (some_masked<side>(warp_row, rows, column, Tiles::inner))
            mask_later_keys<side>(probabilities, warp_row, column);
        differentiate(probabilities, gradients, scale, shared.statistics(stage) + begin);
        if constexpr (keys) add_product(second_sums, probabilities, shared.second_columns(stage), begin);
        add_product(first_sums, gradients, shared.first_columns(stage), begin);
    }
};

template <int head_size, Rows side>
__global__ void __launch_bounds__(BackwardTiles<head_size, side>::threads)
    backward_kernel(AttentionGeometry g, AttentionOrder order, BackwardViews views) {
    using Tiles = BackwardTiles<head_size, side>;
    constexpr bool keys = side == Rows::keys;
    constexpr Rows other = keys ? Rows::queries : Rows::keys;
    ESCALIER_DYNAMIC_SHARED(__nv_bfloat16, memory);
    const BackwardShared<head_size, side> shared{memory};
    const BackwardWork<head_size, side> work(g, order);
    const int thread = static_cast<int>(threadIdx.x);

    const auto load_stage = [&](int head, int tile, int stage) {
        const int first = tile * Tiles::column_block;
        Pair::of<other>(g, views, work.sample, head)
            .template copy_async<Tiles::column_block, Tiles::threads>(
                shared.first_columns(stage), shared.second_columns(stage), first, g.sequence);
        if (thread < Tiles::statistics / 2)
            cp_async16(shared.statistics(stage) + 2 * thread,
                       views.statistics.of_head(g, work.sample, head) + first + 2 * thread);
        cp_async_commit();
    };

    Pair::of<side>(g, views, work.sample, work.head)
        .template copy_async<Tiles::row_block, Tiles::threads>(shared.first_rows(), shared.second_rows(),
                                                               work.first_row, g.sequence);
    load_stage(work.first_head, work.first_tile, 0);
    BackwardWarp<head_size, side> warp;
    if constexpr (keys) {
        warp.second_sums.clear();
    } else {
        const QueryStatistics* rows =
            views.statistics.of_head(g, work.sample, work.head) + work.warp_row() + thread % 32 / 4;
        for (int m = 0; m < Tiles::m_tiles; ++m)
            for (int half = 0; half < 2; ++half) warp.of_row[m][half] = rows[16 * m + 8 * half];
    }
    warp.first_sums.clear();
    if constexpr (warp.rows_in_registers) {
        cp_async_wait<0>();
        __syncthreads();
        warp.first_rows.load(shared.first_rows(), work.warp_place);
        warp.second_rows.load(shared.second_rows(), work.warp_place);
    }
    int stage = 0;
    for (int head = work.first_head, tile = work.first_tile; head <= work.last_head; stage ^= 1) {
        const bool last = tile == work.last_tile;
        const int next_head = last ? head + 1 : head, next_tile = last ? work.first_tile : tile + 1;
        cp_async_wait<0>();
        __syncthreads();
        if (next_head <= work.last_head) load_stage(next_head, next_tile, stage ^ 1);
#pragma unroll 1
        for (int begin = 0; begin < Tiles::column_block; begin += Tiles::inner)
            warp.add_columns(shared, stage, begin, g.scale, work.warp_place, work.warp_row(),
                             tile * Tiles::column_block + begin);
        head = next_head;
        tile = next_tile;
    }

    const auto store = [&](std::int64_t head_offset, SharedTile<head_size> through, const auto& sums,
                           float factor) {
        store_rows(views.dqkv + head_offset + static_cast<std::int64_t>(work.first_row) * g.qkv_stride,
                   g.qkv_stride, g.sequence - work.first_row, through, work.warp_place, sums,
                   [&](int, int) { return factor; });
    };
    store(keys ? g.key(work.sample, work.head) : g.query(work.sample, work.head), shared.first_rows(),
          warp.first_sums, g.scale);
    if constexpr (keys) store(g.value(work.sample, work.head), shared.second_rows(), warp.second_sums, 1.0f);
}

template <int head_size, Rows side>
void launch_backward(const OpContext& context, const AttentionGeometry& g, const BackwardViews& views) {
    using Tiles = BackwardTiles<head_size, side>;
    const AttentionOrder order(g, side == Rows::keys ? g.kv_heads : g.heads, Tiles::row_block);
    launch(backward_kernel<head_size, side>, order.grid(), dim3(Tiles::threads), Tiles::shared_bytes,
           context.queue().stream, g, order, views);
}

}  // namespace

void attention_backward(const OpContext& context, TensorView dqkv, TensorView dout, TensorView out,
                        TensorView lse, TensorView qkv, std::int64_t batch, std::int64_t sequence,
                        std::int64_t heads, std::int64_t kv_heads) {
    const AttentionGeometry g(qkv, batch, sequence, heads, kv_heads);
    ESCALIER_CHECK(dqkv.elements() == qkv.elements(), "dqkv has another shape");
    ESCALIER_CHECK(out.elements() == batch * sequence * g.out_stride && dout.elements() == out.elements(),
                   "out has another shape");
    ESCALIER_CHECK(lse.elements() == batch * sequence * heads, "lse has another shape");
    const AttentionStatistics statistics = attention_statistics(context, g, dout, out, lse);
    const auto on_tensor_cores = [&]<int head_size>() {
        const BackwardViews views{data_as<__nv_bfloat16>(dqkv), data_as<__nv_bfloat16>(qkv),
                                  data_as<__nv_bfloat16>(dout), statistics};
        launch_backward<head_size, Rows::keys>(context, g, views);
        launch_backward<head_size, Rows::queries>(context, g, views);
    };
    if (qkv.dtype() == DType::bf16 && g.head_size == 64)
        on_tensor_cores.template operator()<64>();
    else if (qkv.dtype() == DType::bf16 && g.head_size == 128)
        on_tensor_cores.template operator()<128>();
    else
        fma_attention_backward(context, g, dqkv, dout, qkv, statistics);
}

}  // namespace escalier::kernels::cuda
