// Forward: reads and writes all of qkv once, 2 R (NH + 2 NKV) HS elements. Backward: reads x and the gradient
// of the queries and keys, writes the gradient in place, 3 R (NH + NKV) HS elements. Floor: those bytes at
// the speed of memory, of which 85 % is expected. Eight neighbouring lanes share a head.
#include "kernels/qk_norm.h"

#include "kernels/common/cuda_chunks.h"
#include "kernels/common/cuda_column_sums.h"
#include "kernels/common/cuda_twins.h"
#include "kernels/common/qkv_layout.h"
#include "kernels/qk_norm_scratch.h"

namespace escalier::kernels::cuda {
namespace {

constexpr int threads = 256, lanes = 8, groups = threads / lanes;

// Over the eight lanes of a head; the whole warp takes part.
__device__ __forceinline__ float group_sum(float value) {
#pragma unroll
    for (int distance = lanes / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(whole_warp, value, distance);
    return value;
}

template <class S>
struct Forward {
    S* out;
    float* rstd;
    const S* qkv;
    const float *query_weight, *key_weight;
    std::int64_t all_heads;  // R (NH + 2 NKV): heads lie one after the other
    int heads, kv_heads, head_size;
    float eps;
};

template <class Chunk, class S = ElementOf<Chunk>>
__global__ void __launch_bounds__(threads) forward_kernel(Forward<S> a) {
    const std::int64_t index = std::int64_t{blockIdx.x} * groups + threadIdx.x / lanes;
    const bool inside = index < a.all_heads;
    const int per_row = a.heads + 2 * a.kv_heads, head = static_cast<int>(index % per_row);
    const int begin = static_cast<int>(threadIdx.x % lanes) * Chunk::size, step = lanes * Chunk::size;
    const int end = inside ? a.head_size : 0;
    const S* from = a.qkv + index * a.head_size;
    S* to = a.out + index * a.head_size;
    float squares = 0.0f;
    for (int i = begin; i < end; i += step) {
        const Chunk x = Chunk::load(from + i);
#pragma unroll
        for (int e = 0; e < Chunk::size; ++e) squares += to_float(x[e]) * to_float(x[e]);
    }
    const float rstd = 1.0f / sqrtf(group_sum(squares) / static_cast<float>(a.head_size) + a.eps);
    const bool normed = head < a.heads + a.kv_heads;
    const float* weights = head < a.heads ? a.query_weight : a.key_weight;
    for (int i = begin; i < end; i += step) {
        Chunk x = Chunk::load(from + i);
        if (normed) {
            float weight[Chunk::size];
            load_floats(weight, weights + i);
#pragma unroll
            for (int e = 0; e < Chunk::size; ++e) x[e] = from_float<S>(to_float(x[e]) * rstd * weight[e]);
        }
        x.store(to + i);
    }
    if (inside && normed && begin == 0) a.rstd[index / per_row * (a.heads + a.kv_heads) + head] = rstd;
}

template <class S>
struct Backward {
    S* dqkv;
    float* parts;  // [2, gridDim.x, HS]: of the queries' gain, then the keys'
    const S* qkv;
    const float *rstd, *query_weight, *key_weight;
    std::int64_t rows, rows_per_block;
    int heads, kv_heads, head_size;
};

// A block: a range of rows, of which it takes the queries (blockIdx.y 0) or the keys (1). A lane's channels
// are the same in every head, so their sums stay in registers. `reach`: the largest head size that it takes.
template <class Chunk, int reach, class S = ElementOf<Chunk>>
__global__ void __launch_bounds__(threads) backward_kernel(Backward<S> a) {
    constexpr int width = Chunk::size, chunks = reach / (lanes * width);
    __shared__ float sums[groups][reach];
    const int group = static_cast<int>(threadIdx.x / lanes), lane = static_cast<int>(threadIdx.x % lanes);
    const bool keys = blockIdx.y != 0;
    const int heads = keys ? a.kv_heads : a.heads, first_head = keys ? a.heads : 0;
    const float* weights = keys ? a.key_weight : a.query_weight;
    const auto channel = [lane](int chunk) { return (chunk * lanes + lane) * width; };
    float weight[chunks][width] = {}, sum[chunks][width] = {};
#pragma unroll
    for (int c = 0; c < chunks; ++c)
        if (channel(c) < a.head_size) load_floats(weight[c], weights + channel(c));

    const std::int64_t begin = blockIdx.x * a.rows_per_block;
    const std::int64_t items = min(a.rows_per_block, a.rows - begin) * heads;
    for (std::int64_t first = 0; first < items; first += groups) {
        const std::int64_t item = first + group, row = begin + item / heads;
        const int head = first_head + static_cast<int>(item % heads);
        const bool inside = item < items;
        const std::int64_t at = (row * (a.heads + 2 * a.kv_heads) + head) * a.head_size;
        const float rstd = inside ? a.rstd[row * (a.heads + a.kv_heads) + head] : 0.0f;
        Chunk x[chunks], d[chunks];
        float mean = 0.0f;
#pragma unroll
        for (int c = 0; c < chunks; ++c)
            if (inside && channel(c) < a.head_size) {
                x[c] = Chunk::load(a.qkv + at + channel(c));
                d[c] = Chunk::load(a.dqkv + at + channel(c));
            }
#pragma unroll
        for (int c = 0; c < chunks; ++c)
            if (inside && channel(c) < a.head_size)
#pragma unroll
                for (int e = 0; e < width; ++e) {
                    const float product = to_float(d[c][e]) * (to_float(x[c][e]) * rstd);
                    sum[c][e] += product;
                    mean += product * weight[c][e];
                }
        mean = group_sum(mean) / static_cast<float>(a.head_size);
#pragma unroll
        for (int c = 0; c < chunks; ++c)
            if (inside && channel(c) < a.head_size) {
#pragma unroll
                for (int e = 0; e < width; ++e)
                    d[c][e] = from_float<S>(
                        (to_float(d[c][e]) * weight[c][e] - to_float(x[c][e]) * rstd * mean) * rstd);
                d[c].store(a.dqkv + at + channel(c));
            }
    }
#pragma unroll
    for (int c = 0; c < chunks; ++c)
#pragma unroll
        for (int e = 0; e < width; ++e) sums[group][channel(c) + e] = sum[c][e];
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < a.head_size; i += threads) {
        float total = sums[0][i];
        for (int other = 1; other < groups; ++other) total += sums[other][i];
        a.parts[(std::int64_t{blockIdx.y} * gridDim.x + blockIdx.x) * a.head_size + i] = total;
    }
}

// f.operator()<reach>() with the least reach that holds a head.
template <class F>
void dispatch_reach(int head_size, F f) {
    ESCALIER_CHECK(head_size <= 256, "qk_norm takes head sizes up to 256");
    if (head_size <= 64)
        f.template operator()<64>();
    else if (head_size <= 128)
        f.template operator()<128>();
    else
        f.template operator()<256>();
}

}  // namespace

void qk_norm_forward(const OpContext& context, TensorView out, TensorView rstd, TensorView qkv,
                     TensorView query_weight, TensorView key_weight, std::int64_t heads,
                     std::int64_t kv_heads, float eps) {
    const QkvLayout layout(qkv, heads, kv_heads);
    ESCALIER_CHECK(out.elements() == qkv.elements() && rstd.elements() == layout.rows * (heads + kv_heads),
                   "shapes differ");
    ESCALIER_CHECK(query_weight.elements() == layout.head_size && key_weight.elements() == layout.head_size,
                   "one gain per channel");
    if (layout.rows == 0) return;
    const bool vectors = vectors_fit(qkv.dtype(), layout.head_size, {out, qkv, query_weight, key_weight});
    dispatch_chunk(qkv.dtype(), vectors, [&]<class Chunk>() {
        using S = ElementOf<Chunk>;
        const std::int64_t all_heads = layout.rows * (heads + 2 * kv_heads);
        launch(forward_kernel<Chunk>, ceil_div(all_heads, groups), dim3(threads), 0, context.queue().stream,
               Forward<S>{data_as<S>(out), rstd.as<float>(), data_as<S>(qkv), query_weight.as<float>(),
                          key_weight.as<float>(), all_heads, static_cast<int>(heads),
                          static_cast<int>(kv_heads), static_cast<int>(layout.head_size), eps});
    });
}

void qk_norm_backward(const OpContext& context, TensorView dqkv, TensorView dquery_weight,
                      TensorView dkey_weight, TensorView qkv, TensorView rstd, TensorView query_weight,
                      TensorView key_weight, std::int64_t heads, std::int64_t kv_heads,
                      Accumulate accumulate) {
    const QkvLayout layout(qkv, heads, kv_heads);
    ESCALIER_CHECK(dqkv.elements() == qkv.elements() && rstd.elements() == layout.rows * (heads + kv_heads),
                   "shapes differ");
    const std::int64_t size = layout.head_size, blocks = qk_norm_blocks(layout.rows);
    float* parts = context.shared_scratch<float>(qk_norm_scratch_bytes(layout.rows, size) / sizeof(float));
    const bool vectors = vectors_fit(qkv.dtype(), size, {dqkv, qkv, query_weight, key_weight});
    dispatch_chunk(qkv.dtype(), vectors, [&]<class Chunk>() {
        using S = ElementOf<Chunk>;
        const Backward<S> arguments{data_as<S>(dqkv),
                                    parts,
                                    data_as<S>(qkv),
                                    rstd.as<float>(),
                                    query_weight.as<float>(),
                                    key_weight.as<float>(),
                                    layout.rows,
                                    ceil_div(layout.rows, blocks),
                                    static_cast<int>(heads),
                                    static_cast<int>(kv_heads),
                                    static_cast<int>(size)};
        dispatch_reach(arguments.head_size, [&]<int reach>() {
            launch(backward_kernel<Chunk, reach>, dim3(static_cast<unsigned>(blocks), 2), dim3(threads), 0,
                   context.queue().stream, arguments);
        });
    });
    add_parts(context, dquery_weight.as<float>(), parts, blocks, size, accumulate);
    add_parts(context, dkey_weight.as<float>(), parts + blocks * size, blocks, size, accumulate);
}

}  // namespace escalier::kernels::cuda
