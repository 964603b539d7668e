#include "kernels/layernorm.h"

#include <cmath>

#include "kernels/common/column_sums.h"
#include "kernels/common/cpu_twins.h"
#include "kernels/common/rows.h"

namespace escalier::kernels::cpu {
namespace {

ESCALIER_VECTORIZED void normalize_row(float* y, float* mean_out, float* rstd_out, const float* x,
                                       const float* weight, const float* bias, std::int64_t columns,
                                       float eps) {
    FloatLanes sums{};
    sweep(columns, [&](std::int64_t i, auto lanes) { sums += load(x + i, lanes); });
    const float mean = sum_of(sums) / static_cast<float>(columns);
    FloatLanes squares{};
    sweep(columns, [&](std::int64_t i, auto lanes) {
        const FloatLanes centred = load(x + i, lanes, mean) - mean;  // lanes past the end add zero
        squares += centred * centred;
    });
    const float rstd = 1.0f / std::sqrt(sum_of(squares) / static_cast<float>(columns) + eps);
    sweep(columns, [&](std::int64_t i, auto lanes) {
        const FloatLanes normal = (load(x + i, lanes) - mean) * rstd;
        store(y + i, normal * load(weight + i, lanes) + load(bias + i, lanes), lanes);
    });
    *mean_out = mean;
    *rstd_out = rstd;
}

// dx of one row; adds the row's share to dweight and dbias. dresidual may be null.
ESCALIER_VECTORIZED void backward_row(float* dx, float* dweight, float* dbias, const float* dresidual,
                                      const float* dy, const float* x, float mean, float rstd,
                                      const float* weight, std::int64_t columns) {
    FloatLanes sum_g{}, sum_gn{};
    sweep(columns, [&](std::int64_t i, auto lanes) {
        const FloatLanes d = load(dy + i, lanes);
        const FloatLanes normal = (load(x + i, lanes) - mean) * rstd;
        const FloatLanes g = d * load(weight + i, lanes);
        sum_g += g;
        sum_gn += g * normal;
        store(dweight + i, load(dweight + i, lanes) + d * normal, lanes);
        store(dbias + i, load(dbias + i, lanes) + d, lanes);
    });
    const float mean_g = sum_of(sum_g) / static_cast<float>(columns);
    const float mean_gn = sum_of(sum_gn) / static_cast<float>(columns);
    sweep(columns, [&](std::int64_t i, auto lanes) {
        const FloatLanes normal = (load(x + i, lanes) - mean) * rstd;
        const FloatLanes g = load(dy + i, lanes) * load(weight + i, lanes);
        FloatLanes out = (g - mean_g - normal * mean_gn) * rstd;
        if (dresidual) out += load(dresidual + i, lanes);
        store(dx + i, out, lanes);
    });
}

void check_rows(const TensorView& y, const TensorView& x, const TensorView& statistic,
                const TensorView& weight) {
    ESCALIER_CHECK(y.elements() == x.elements(), "shapes differ");
    ESCALIER_CHECK(statistic.elements() == rows_of(x), "one statistic per row is wanted");
    ESCALIER_CHECK(weight.elements() == columns_of(x), "weight has another length");
}

}  // namespace

void layernorm_forward(const OpContext& context, TensorView y, TensorView mean, TensorView rstd, TensorView x,
                       TensorView weight, TensorView bias, float eps) {
    check_rows(y, x, rstd, weight);
    const std::int64_t columns = columns_of(x);
    float *out = y.as<float>(), *means = mean.as<float>(), *rstds = rstd.as<float>();
    const float *in = x.as<float>(), *gain = weight.as<float>(), *shift = bias.as<float>();
    for_row_blocks(context, rows_of(x), columns, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t row = begin; row < end; ++row)
            normalize_row(out + row * columns, means + row, rstds + row, in + row * columns, gain, shift,
                          columns, eps);
    });
}

void residual_layernorm_forward(const OpContext& context, TensorView sum, TensorView y, TensorView mean,
                                TensorView rstd, TensorView residual, TensorView delta, TensorView delta_bias,
                                TensorView weight, TensorView bias, float eps) {
    check_rows(y, sum, rstd, weight);
    ESCALIER_CHECK(residual.elements() == sum.elements() && delta.elements() == sum.elements(),
                   "shapes differ");
    const std::int64_t columns = columns_of(sum);
    float *total = sum.as<float>(), *out = y.as<float>(), *means = mean.as<float>(),
          *rstds = rstd.as<float>();
    const float *a = residual.as<float>(), *b = delta.as<float>(), *b_bias = delta_bias.as<float>();
    const float *gain = weight.as<float>(), *shift = bias.as<float>();
    for_row_blocks(context, rows_of(sum), columns, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t at = row * columns;
            residual_row(total + at, a + at, b + at, b_bias, columns);
            normalize_row(out + at, means + row, rstds + row, total + at, gain, shift, columns, eps);
        }
    });
}

void layernorm_backward(const OpContext& context, TensorView dx, TensorView dweight, TensorView dbias,
                        TensorView dresidual, TensorView dy, TensorView x, TensorView mean, TensorView rstd,
                        TensorView weight, Accumulate accumulate) {
    check_rows(dx, x, rstd, weight);
    ESCALIER_CHECK(dy.elements() == x.elements(), "shapes differ");
    const std::int64_t columns = columns_of(x);
    float* out = dx.as<float>();
    const float *past = dresidual.as<float>(), *d = dy.as<float>(), *in = x.as<float>();
    const float *means = mean.as<float>(), *rstds = rstd.as<float>(), *gain = weight.as<float>();
    ColumnSums sums(context, rows_of(x), columns, 2);
    sums.for_row_blocks([&](std::int64_t begin, std::int64_t end, float** partial) {
        for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t at = row * columns;
            backward_row(out + at, partial[0], partial[1], past ? past + at : nullptr, d + at, in + at,
                         means[row], rstds[row], gain, columns);
        }
    });
    sums.finish(dweight.as<float>(), 0, accumulate);
    sums.finish(dbias.as<float>(), 1, accumulate);
}

}  // namespace escalier::kernels::cpu
