#include "kernels/swiglu.h"

#include "kernels/common/blocks.h"
#include "kernels/common/cpu_twins.h"
#include "kernels/common/exp.h"

namespace escalier::kernels::cpu {
namespace {

ESCALIER_VECTORIZED void forward_row(float* y, const float* gate, const float* up, std::int64_t columns) {
    sweep(columns, [&](std::int64_t i, auto lanes) {
        const FloatLanes g = load(gate + i, lanes);
        store(y + i, g * sigmoid_lanes(g) * load(up + i, lanes), lanes);
    });
}

ESCALIER_VECTORIZED void backward_row(float* dgate, float* dup, const float* dy, const float* gate,
                                      const float* up, std::int64_t columns) {
    sweep(columns, [&](std::int64_t i, auto lanes) {
        const FloatLanes g = load(gate + i, lanes), d = load(dy + i, lanes), u = load(up + i, lanes);
        const FloatLanes s = sigmoid_lanes(g);
        store(dgate + i, d * u * (s + g * s * (1.0f - s)), lanes);
        store(dup + i, d * g * s, lanes);
    });
}

}  // namespace

void swiglu_forward(const OpContext& context, TensorView y, TensorView gate_up) {
    ESCALIER_CHECK(gate_up.elements() == 2 * y.elements(), "gate_up must hold gate and up");
    const std::int64_t columns = columns_of(y);
    float* out = y.as<float>();
    const float* in = gate_up.as<float>();
    for_row_blocks(context, rows_of(y), 2 * columns, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t row = begin; row < end; ++row) {
            const float* gate = in + row * 2 * columns;
            forward_row(out + row * columns, gate, gate + columns, columns);
        }
    });
}

void swiglu_backward(const OpContext& context, TensorView dgate_up, TensorView dy, TensorView gate_up) {
    ESCALIER_CHECK(gate_up.elements() == 2 * dy.elements(), "gate_up must hold gate and up");
    ESCALIER_CHECK(dgate_up.elements() == gate_up.elements(), "shapes differ");
    const std::int64_t columns = columns_of(dy);
    float* out = dgate_up.as<float>();
    const float *d = dy.as<float>(), *in = gate_up.as<float>();
    for_row_blocks(context, rows_of(dy), 2 * columns, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t at = row * 2 * columns;
            backward_row(out + at, out + at + columns, d + row * columns, in + at, in + at + columns,
                         columns);
        }
    });
}

}  // namespace escalier::kernels::cpu
