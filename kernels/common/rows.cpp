#include "kernels/common/rows.h"

#include "kernels/common/simd.h"

namespace escalier::kernels {

ESCALIER_VECTORIZED void add_row(float* out, const float* in, std::int64_t n) {
    sweep(n, [&](std::int64_t i, auto lanes) {
        store(out + i, load(out + i, lanes) + load(in + i, lanes), lanes);
    });
}

ESCALIER_VECTORIZED void residual_row(float* out, const float* residual, const float* delta,
                                      const float* bias, std::int64_t columns) {
    if (bias) {
        sweep(columns, [&](std::int64_t i, auto lanes) {
            store(out + i, load(residual + i, lanes) + (load(delta + i, lanes) + load(bias + i, lanes)),
                  lanes);
        });
    } else {
        sweep(columns, [&](std::int64_t i, auto lanes) {
            store(out + i, load(residual + i, lanes) + load(delta + i, lanes), lanes);
        });
    }
}

}  // namespace escalier::kernels
