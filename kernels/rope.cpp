#include "kernels/rope.h"

#include <cmath>

#include "kernels/common/cpu_twins.h"
#include "kernels/common/qkv_layout.h"
#include "kernels/common/rope_angle.h"
#include "kernels/common/simd.h"

namespace escalier::kernels::cpu {
namespace {

// Rotates one head; direction is 1 forward and -1 backward.
ESCALIER_VECTORIZED void rotate_head(float* head, const float* cosines, const float* sines, float direction,
                                     std::int64_t half) {
    sweep(half, [&](std::int64_t i, auto lanes) {
        const FloatLanes c = load(cosines + i, lanes), s = load(sines + i, lanes) * direction;
        const FloatLanes low = load(head + i, lanes), high = load(head + half + i, lanes);
        store(head + i, low * c - high * s, lanes);
        store(head + half + i, high * c + low * s, lanes);
    });
}

void rotate(const OpContext& context, TensorView qkv, TensorView table, std::int64_t heads,
            std::int64_t kv_heads, std::int64_t sequence, float direction) {
    const QkvLayout layout(qkv, heads, kv_heads);
    const std::int64_t size = layout.head_size;
    ESCALIER_CHECK(size % 2 == 0, "RoPE needs an even head size");
    ESCALIER_CHECK(columns_of(table) == size && rows_of(table) >= std::min(sequence, layout.rows),
                   "table does not fit");
    float* data = qkv.as<float>();
    const float* angles = table.as<float>();
    for_row_blocks(context, layout.rows, layout.columns, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t row = begin; row < end; ++row) {
            const float* cosines = angles + row % sequence * size;
            for (std::int64_t head = 0; head < heads + kv_heads; ++head)
                rotate_head(data + row * layout.columns + head * size, cosines, cosines + size / 2, direction,
                            size / 2);
        }
    });
}

}  // namespace

void rope_table(const OpContext& context, TensorView table, double theta,
                const RopeScalingParameters& scaling) {
    const std::int64_t size = columns_of(table);
    ESCALIER_CHECK(size % 2 == 0, "RoPE needs an even head size");
    float* out = table.as<float>();
    for_row_blocks(context, rows_of(table), size, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t m = 0; m < size / 2; ++m) {
            const float frequency = rope_frequency(std::pow(theta, rope_exponent(m, size / 2)), scaling);
            for (std::int64_t position = begin; position < end; ++position) {
                const double angle = rope_angle(position, frequency);
                out[position * size + m] = static_cast<float>(std::cos(angle));
                out[position * size + size / 2 + m] = static_cast<float>(std::sin(angle));
            }
        }
    });
}

void rope_forward(const OpContext& context, TensorView qkv, TensorView table, std::int64_t heads,
                  std::int64_t kv_heads, std::int64_t sequence) {
    rotate(context, qkv, table, heads, kv_heads, sequence, 1.0f);
}

void rope_backward(const OpContext& context, TensorView qkv, TensorView table, std::int64_t heads,
                   std::int64_t kv_heads, std::int64_t sequence) {
    rotate(context, qkv, table, heads, kv_heads, sequence, -1.0f);
}

}  // namespace escalier::kernels::cpu
