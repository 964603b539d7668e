#include "kernels/rmsnorm.h"

#include "kernels/common/column_sums.h"
#include "kernels/common/cpu_twins.h"
#include "kernels/common/rms_row.h"
#include "kernels/common/rows.h"

namespace escalier::kernels::cpu {
namespace {

void check_rows(const TensorView& y, const TensorView& x, const TensorView& rstd, const TensorView& weight) {
    ESCALIER_CHECK(y.elements() == x.elements(), "shapes differ");
    ESCALIER_CHECK(rstd.elements() == rows_of(x), "one rstd per row is wanted");
    ESCALIER_CHECK(weight.elements() == columns_of(x), "weight has another length");
}

}  // namespace

void rmsnorm_forward(const OpContext& context, TensorView y, TensorView rstd, TensorView x, TensorView weight,
                     float eps) {
    check_rows(y, x, rstd, weight);
    const std::int64_t columns = columns_of(x);
    float *out = y.as<float>(), *rstds = rstd.as<float>();
    const float *in = x.as<float>(), *gain = weight.as<float>();
    for_row_blocks(context, rows_of(x), columns, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t row = begin; row < end; ++row)
            rms_row_forward(out + row * columns, rstds + row, in + row * columns, gain, columns, eps);
    });
}

void residual_rmsnorm_forward(const OpContext& context, TensorView sum, TensorView y, TensorView rstd,
                              TensorView residual, TensorView delta, TensorView delta_bias, TensorView weight,
                              float eps) {
    check_rows(y, sum, rstd, weight);
    ESCALIER_CHECK(residual.elements() == sum.elements() && delta.elements() == sum.elements(),
                   "shapes differ");
    const std::int64_t columns = columns_of(sum);
    float *total = sum.as<float>(), *out = y.as<float>(), *rstds = rstd.as<float>();
    const float *a = residual.as<float>(), *b = delta.as<float>(), *b_bias = delta_bias.as<float>();
    const float* gain = weight.as<float>();
    for_row_blocks(context, rows_of(sum), columns, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t at = row * columns;
            residual_row(total + at, a + at, b + at, b_bias, columns);
            rms_row_forward(out + at, rstds + row, total + at, gain, columns, eps);
        }
    });
}

void rmsnorm_backward(const OpContext& context, TensorView dx, TensorView dweight, TensorView dresidual,
                      TensorView dy, TensorView x, TensorView rstd, TensorView weight,
                      Accumulate accumulate) {
    check_rows(dx, x, rstd, weight);
    ESCALIER_CHECK(dy.elements() == x.elements(), "shapes differ");
    const std::int64_t columns = columns_of(x);
    float* out = dx.as<float>();
    const float *past = dresidual.as<float>(), *d = dy.as<float>(), *in = x.as<float>();
    const float *rstds = rstd.as<float>(), *gain = weight.as<float>();
    ColumnSums sums(context, rows_of(x), columns, 1);
    sums.for_row_blocks([&](std::int64_t begin, std::int64_t end, float** partial) {
        for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t at = row * columns;
            rms_row_backward(out + at, partial[0], past ? past + at : nullptr, d + at, in + at, rstds[row],
                             gain, columns);
        }
    });
    sums.finish(dweight.as<float>(), 0, accumulate);
}

}  // namespace escalier::kernels::cpu
