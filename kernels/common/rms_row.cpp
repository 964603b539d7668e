#include "kernels/common/rms_row.h"

#include <cmath>

#include "kernels/common/simd.h"

namespace escalier::kernels {

ESCALIER_VECTORIZED void rms_row_forward(float* y, float* rstd_out, const float* x, const float* weight,
                                         std::int64_t columns, float eps) {
    FloatLanes squares{};
    sweep(columns, [&](std::int64_t i, auto lanes) {
        const FloatLanes value = load(x + i, lanes);
        squares += value * value;
    });
    const float rstd = 1.0f / std::sqrt(sum_of(squares) / static_cast<float>(columns) + eps);
    sweep(columns, [&](std::int64_t i, auto lanes) {
        store(y + i, load(x + i, lanes) * rstd * load(weight + i, lanes), lanes);
    });
    *rstd_out = rstd;
}

ESCALIER_VECTORIZED void rms_row_backward(float* dx, float* dweight, const float* dresidual, const float* dy,
                                          const float* x, float rstd, const float* weight,
                                          std::int64_t columns) {
    FloatLanes sum_gn{};
    sweep(columns, [&](std::int64_t i, auto lanes) {
        const FloatLanes d = load(dy + i, lanes);
        const FloatLanes normal = load(x + i, lanes) * rstd;
        sum_gn += d * load(weight + i, lanes) * normal;
        store(dweight + i, load(dweight + i, lanes) + d * normal, lanes);
    });
    const float mean_gn = sum_of(sum_gn) / static_cast<float>(columns);
    sweep(columns, [&](std::int64_t i, auto lanes) {
        const FloatLanes normal = load(x + i, lanes) * rstd;
        FloatLanes out = (load(dy + i, lanes) * load(weight + i, lanes) - normal * mean_gn) * rstd;
        if (dresidual) out += load(dresidual + i, lanes);
        store(dx + i, out, lanes);
    });
}

}  // namespace escalier::kernels
