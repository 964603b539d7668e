// Flash attention forward (Dao 2023) with mma.sync, and the op's choice between it and plain FMA.
//
// A block: 128 queries of a head, four warps of 32 (two m-tiles: every fragment of keys or values that a warp
// reads from shared memory meets two of queries, or that bandwidth would be the limit; with a head size of 64
// the queries themselves stay in registers). Tiles of 64 keys and values (32 with a head size of 128, whose
// output takes 128 registers) come by cp.async into two stages, the next while one is used. Scores never
// leave the registers: they are the accumulator of one product and the A operand of the next. 236 to 244
// registers and 54 to 70 KB of shared memory: two blocks to a multiprocessor, so one warp's softmax runs
// beside another's products. Tiles after the diagonal are skipped, for each warp by itself.
//
// FLOPs: 2 T^2 HS for each head of a sample (the causal half of two products); tiles on the diagonal add
// about 64 / T of that. Bytes: R (2 NH + 2 NKV) HS elements and 4 R NH of lse, which is no limit from T = 256
// on. Floor: FLOPs at the dense bf16 peak. Expected share of it on an H200: 27 % (HS 64, T 1024) to 35 % (HS
// 128, T 4096). mma.sync reaches about 62 % of what wgmma does, one exponential takes as long as 256 FLOPs of
// the peak (with HS 64 those are all of a score's FLOPs), and the last wave is not full.
#include "kernels/attention.h"
#include "kernels/attention_causal.h"
#include "kernels/attention_fma.h"
#include "kernels/attention_geometry.h"
#include "kernels/common/cuda_queue.h"
#include "kernels/common/cuda_twins.h"

namespace escalier::kernels::cuda {
namespace {

template <int head_size>
struct ForwardTiles {
    static constexpr bool queries_in_registers = head_size == 64;
    static constexpr int threads = 128, m_tiles = 2;
    static constexpr int query_block = 128, key_block = head_size == 64 ? 64 : 32, stages = 2;
    static constexpr int query_elements = SharedTile<head_size>::elements(query_block);
    static constexpr int key_elements = SharedTile<head_size>::elements(key_block);
    static constexpr std::size_t shared_bytes =
        (query_elements + stages * 2 * key_elements) * sizeof(__nv_bfloat16);
};

// The running softmax of a warp's rows, each row over four neighbouring lanes.
template <int m_tiles>
struct OnlineSoftmax {
    float maximum[m_tiles][2], sum[m_tiles][2];  // of rows g and g + 8 of each m-tile; sum: this lane's share

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int m = 0; m < m_tiles; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half) maximum[m][half] = -INFINITY, sum[m][half] = 0.0f;
    }
    // Scores become exp2(scale (score - maximum so far)); sum and `out` shrink to the new maximum. Once the
    // first keys are past most tiles leave every maximum as it was, and the warp skips the multiplications
    // by 1.
    template <int n_tiles, int out_tiles>
    __device__ __forceinline__ void update(Accumulator<m_tiles, n_tiles>& scores,
                                           Accumulator<m_tiles, out_tiles>& out, float scale) {
        float shrink[m_tiles][2];
        bool grown = false;
#pragma unroll
        for (int m = 0; m < m_tiles; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float largest = maximum[m][half];
#pragma unroll
                for (int n = 0; n < n_tiles; ++n)
                    largest = fmaxf(largest, fmaxf(scores.at[m][n][2 * half], scores.at[m][n][2 * half + 1]));
                largest = quad_max(largest);
                grown |= largest > maximum[m][half];
                shrink[m][half] = fast_exp2((maximum[m][half] - largest) * scale);
                maximum[m][half] = largest;
            }
        if (__any_sync(whole_warp, grown)) rescale(out, shrink);
#pragma unroll
        for (int m = 0; m < m_tiles; ++m)
#pragma unroll
            for (int n = 0; n < n_tiles; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    float& score = scores.at[m][n][i];
                    score = fast_exp2(score * scale - maximum[m][i / 2] * scale);
                    sum[m][i / 2] += score;
                }
    }
    template <int out_tiles>
    __device__ __forceinline__ void rescale(Accumulator<m_tiles, out_tiles>& out,
                                            const float (&shrink)[m_tiles][2]) {
#pragma unroll
        for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
            for (int n = 0; n < out_tiles; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i) out.at[m][n][i] *= shrink[m][i / 2];
            sum[m][0] *= shrink[m][0];
            sum[m][1] *= shrink[m][1];
        }
    }
};

template <int head_size>
__global__ void __launch_bounds__(128)
    forward_kernel(AttentionGeometry g, AttentionOrder order, __nv_bfloat16* out, float* lse,
                   const __nv_bfloat16* qkv) {
    using Tiles = ForwardTiles<head_size>;
    using Tile = SharedTile<head_size>;
    constexpr int m_tiles = Tiles::m_tiles, n_tiles = Tiles::key_block / 8;
    ESCALIER_DYNAMIC_SHARED(__nv_bfloat16, shared);
    const Tile query_tile{shared};
    const auto key_tile = [&](int stage) {
        return Tile{shared + Tiles::query_elements + stage * 2 * Tiles::key_elements};
    };
    const auto value_tile = [&](int stage) { return Tile{key_tile(stage).data + Tiles::key_elements}; };

    const AttentionOrder::Place place = order.place();
    const int sample = place.head / g.heads, head = place.head % g.heads, kv_head = head / g.group();
    const int first_query = (order.blocks - 1 - place.rank) * Tiles::query_block;
    const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16 * m_tiles,
              warp_query = first_query + warp_row;
    const int tiles =
        (min(first_query + Tiles::query_block, g.sequence) + Tiles::key_block - 1) / Tiles::key_block;
    const __nv_bfloat16 *keys = qkv + g.key(sample, kv_head), *values = qkv + g.value(sample, kv_head);
    const auto load_stage = [&](int tile) {
        const std::int64_t row = static_cast<std::int64_t>(tile) * Tiles::key_block;
        const int valid = g.sequence - static_cast<int>(row);
        copy_tile_async<Tiles::key_block, Tiles::threads>(key_tile(tile % 2), keys + row * g.qkv_stride,
                                                          g.qkv_stride, valid);
        copy_tile_async<Tiles::key_block, Tiles::threads>(value_tile(tile % 2), values + row * g.qkv_stride,
                                                          g.qkv_stride, valid);
        cp_async_commit();
    };

    copy_tile_async<Tiles::query_block, Tiles::threads>(
        query_tile, qkv + g.query(sample, head) + static_cast<std::int64_t>(first_query) * g.qkv_stride,
        g.qkv_stride, g.sequence - first_query);
    load_stage(0);
    Accumulator<m_tiles, head_size / 8> sums;
    OnlineSoftmax<m_tiles> softmax;
    sums.clear();
    softmax.clear();
    RowFragments<m_tiles, Tiles::queries_in_registers ? head_size : 64> queries;
    if constexpr (Tiles::queries_in_registers) {
        cp_async_wait<0>();
        __syncthreads();
        queries.load(query_tile, warp_row);
    }
    for (int tile = 0; tile < tiles; ++tile) {
        cp_async_wait<0>();
        __syncthreads();
        if (tile + 1 < tiles) load_stage(tile + 1);
        const int first_key = tile * Tiles::key_block;
        if (all_masked<Rows::queries>(warp_query, 16 * m_tiles, first_key, Tiles::key_block)) continue;
        Accumulator<m_tiles, n_tiles> scores;
        scores.clear();
        add_product_transposed(
            scores,
            [&](std::uint32_t(&a)[4], int m, int k) {
                if constexpr (Tiles::queries_in_registers)
                    queries.get(a, m, k);
                else
                    load_a(a, query_tile, warp_row + 16 * m, k);
            },
            key_tile(tile % 2), 0);
        if (some_masked<Rows::queries>(warp_query, 16 * m_tiles, first_key, Tiles::key_block))
            mask_later_keys<Rows::queries>(scores, warp_query, first_key);
        softmax.update(scores, sums, g.scale * log2_of_e);
        add_product(sums, scores, value_tile(tile % 2), 0);
    }

    float factor[m_tiles][2];
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < m_tiles; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float sum = quad_sum(softmax.sum[m][half]);
            factor[m][half] = 1.0f / sum;
            const int row = warp_query + 16 * m + 8 * half + lane / 4;
            if (lane % 4 == 0 && row < g.sequence)
                lse[g.statistic(sample, head) + row] = softmax.maximum[m][half] * g.scale + logf(sum);
        }
    store_rows(out + g.out(sample, head) + static_cast<std::int64_t>(first_query) * g.out_stride,
               g.out_stride, g.sequence - first_query, query_tile, warp_row, sums,
               [&](int m, int half) { return factor[m][half]; });
}

template <int head_size>
void tensor_core_forward(const OpContext& context, const AttentionGeometry& g, __nv_bfloat16* out, float* lse,
                         const __nv_bfloat16* qkv) {
    using Tiles = ForwardTiles<head_size>;
    const AttentionOrder order(g, g.heads, Tiles::query_block);
    launch(forward_kernel<head_size>, order.grid(), dim3(Tiles::threads), Tiles::shared_bytes,
           context.queue().stream, g, order, out, lse, qkv);
}

}  // namespace

void attention_forward(const OpContext& context, TensorView out, TensorView lse, TensorView qkv,
                       std::int64_t batch, std::int64_t sequence, std::int64_t heads, std::int64_t kv_heads) {
    const AttentionGeometry g(qkv, batch, sequence, heads, kv_heads);
    ESCALIER_CHECK(out.elements() == batch * sequence * g.out_stride, "out has another shape");
    ESCALIER_CHECK(lse.elements() == batch * sequence * heads, "lse has another shape");
    const auto on_tensor_cores = [&]<int head_size>() {
        tensor_core_forward<head_size>(context, g, data_as<__nv_bfloat16>(out), data_as<float>(lse),
                                       data_as<__nv_bfloat16>(qkv));
    };
    if (qkv.dtype() == DType::bf16 && g.head_size == 64)
        on_tensor_cores.template operator()<64>();
    else if (qkv.dtype() == DType::bf16 && g.head_size == 128)
        on_tensor_cores.template operator()<128>();
    else
        fma_attention_forward(context, g, out, lse, qkv);
}

}  // namespace escalier::kernels::cuda
