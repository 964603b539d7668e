// Rotation: reads and writes the queries and keys once, 2 R (NH + NKV) HS elements, and the table once per
// row from L2. Floor: those bytes at the speed of memory, of which 80 % is expected: a row is a short piece
// of work.
#include "kernels/rope.h"

#include "kernels/common/cuda_chunks.h"
#include "kernels/common/cuda_twins.h"
#include "kernels/common/qkv_layout.h"
#include "kernels/common/rope_angle.h"

namespace escalier::kernels::cuda {
namespace {

// A thread: one angle at one position.
__global__ void table_kernel(float* table, int positions, int half, double theta,
                             RopeScalingParameters scaling) {
    const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), position = at / half,
              m = at % half;
    if (position >= positions) return;
    const double angle = rope_angle(position, rope_frequency(pow(theta, rope_exponent(m, half)), scaling));
    table[position * 2 * half + m] = static_cast<float>(cos(angle));
    table[position * 2 * half + half + m] = static_cast<float>(sin(angle));
}

// A block: one row. A thread has the angles of one chunk of the head's first half in registers (threadIdx.x)
// and rotates it in every blockDim.y-th head.
template <class Chunk, class S = ElementOf<Chunk>>
__global__ void rotate_kernel(S* qkv, const float* table, int columns, int heads, int half, int sequence,
                              float direction) {
    const int first = static_cast<int>(threadIdx.x) * Chunk::size;
    const float* angles = table + std::int64_t{blockIdx.x % sequence} * 2 * half + first;
    float cosines[Chunk::size], sines[Chunk::size];
    load_floats(cosines, angles);
    load_floats(sines, angles + half);
    S* const row = qkv + std::int64_t{blockIdx.x} * columns + first;
    for (int head = static_cast<int>(threadIdx.y); head < heads; head += static_cast<int>(blockDim.y)) {
        S *const low_at = row + head * 2 * half, *const high_at = low_at + half;
        Chunk low = Chunk::load(low_at), high = Chunk::load(high_at);
#pragma unroll
        for (int i = 0; i < Chunk::size; ++i) {
            const float a = to_float(low[i]), b = to_float(high[i]), s = sines[i] * direction;
            low[i] = from_float<S>(a * cosines[i] - b * s);
            high[i] = from_float<S>(b * cosines[i] + a * s);
        }
        low.store(low_at);
        high.store(high_at);
    }
}

void rotate(const OpContext& context, const TensorView& qkv, const TensorView& table, std::int64_t heads,
            std::int64_t kv_heads, std::int64_t sequence, float direction) {
    constexpr std::int64_t threads = 128;
    const QkvLayout layout(qkv, heads, kv_heads);
    ESCALIER_CHECK(layout.head_size % 2 == 0, "RoPE needs an even head size");
    ESCALIER_CHECK(columns_of(table) == layout.head_size && rows_of(table) >= std::min(sequence, layout.rows),
                   "table does not fit");
    if (layout.rows == 0) return;
    const std::int64_t half = layout.head_size / 2, rotated = heads + kv_heads;
    dispatch_chunk(qkv.dtype(), vectors_fit(qkv.dtype(), half, {qkv, table}), [&]<class Chunk>() {
        const std::int64_t chunks = half / Chunk::size;
        const dim3 block(static_cast<unsigned>(chunks),
                         static_cast<unsigned>(std::clamp<std::int64_t>(threads / chunks, 1, rotated)));
        launch(rotate_kernel<Chunk>, layout.rows, block, 0, context.queue().stream,
               data_as<ElementOf<Chunk>>(qkv), table.as<float>(), static_cast<int>(layout.columns),
               static_cast<int>(rotated), static_cast<int>(half), static_cast<int>(sequence), direction);
    });
}

}  // namespace

void rope_table(const OpContext& context, TensorView table, double theta,
                const RopeScalingParameters& scaling) {
    constexpr int threads = 128;
    const std::int64_t half = columns_of(table) / 2;
    ESCALIER_CHECK(columns_of(table) % 2 == 0, "RoPE needs an even head size");
    ESCALIER_CHECK(table.elements() <= INT32_MAX, "the table has more than 2^31 elements");
    if (table.elements() == 0) return;
    launch(table_kernel, ceil_div(table.elements() / 2, threads), dim3(threads), 0, context.queue().stream,
           table.as<float>(), static_cast<int>(rows_of(table)), static_cast<int>(half), theta, scaling);
}

void rope_forward(const OpContext& context, TensorView qkv, TensorView table, std::int64_t heads,
                  std::int64_t kv_heads, std::int64_t sequence) {
    rotate(context, qkv, table, heads, kv_heads, sequence, 1.0f);
}

void rope_backward(const OpContext& context, TensorView qkv, TensorView table, std::int64_t heads,
                   std::int64_t kv_heads, std::int64_t sequence) {
    rotate(context, qkv, table, heads, kv_heads, sequence, -1.0f);
}

}  // namespace escalier::kernels::cuda
