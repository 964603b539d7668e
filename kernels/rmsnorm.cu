// Bytes and floors as of layernorm.cu, with half as many partial sums in the backward pass.
#include "kernels/rmsnorm.h"

#include "kernels/common/cuda_norm.h"
#include "kernels/common/cuda_norm_backward.h"
#include "kernels/common/cuda_twins.h"

namespace escalier::kernels::cuda {
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
    const std::int64_t rows = rows_of(x), columns = columns_of(x);
    if (rows == 0) return;
    dispatch_chunk(x.dtype(), vectors_fit(x.dtype(), columns, {y, x, weight}), [&]<class Chunk>() {
        using S = ElementOf<Chunk>;
        launch_norm_forward<false, false, Chunk>(context, NormForward<S>{nullptr,
                                                                         data_as<S>(y),
                                                                         nullptr,
                                                                         rstd.as<float>(),
                                                                         data_as<S>(x),
                                                                         nullptr,
                                                                         {},
                                                                         weight.as<float>(),
                                                                         nullptr,
                                                                         rows,
                                                                         columns,
                                                                         eps});
    });
}

void residual_rmsnorm_forward(const OpContext& context, TensorView sum, TensorView y, TensorView rstd,
                              TensorView residual, TensorView delta, TensorView delta_bias, TensorView weight,
                              float eps) {
    check_rows(y, sum, rstd, weight);
    ESCALIER_CHECK(residual.elements() == sum.elements() && delta.elements() == sum.elements(),
                   "shapes differ");
    const std::int64_t rows = rows_of(sum), columns = columns_of(sum);
    if (rows == 0) return;
    const bool vectors = vectors_fit(sum.dtype(), columns, {sum, y, residual, delta, delta_bias, weight});
    dispatch_chunk(sum.dtype(), vectors, [&]<class Chunk>() {
        using S = ElementOf<Chunk>;
        launch_norm_forward<false, true, Chunk>(
            context, NormForward<S>{data_as<S>(sum), data_as<S>(y), nullptr, rstd.as<float>(),
                                    data_as<S>(residual), data_as<S>(delta), bias_as<S>(delta_bias),
                                    weight.as<float>(), nullptr, rows, columns, eps});
    });
}

void rmsnorm_backward(const OpContext& context, TensorView dx, TensorView dweight, TensorView dresidual,
                      TensorView dy, TensorView x, TensorView rstd, TensorView weight,
                      Accumulate accumulate) {
    check_rows(dx, x, rstd, weight);
    ESCALIER_CHECK(dy.elements() == x.elements(), "shapes differ");
    const std::int64_t rows = rows_of(x), columns = columns_of(x);
    const bool vectors = vectors_fit(x.dtype(), columns, {dx, dresidual, dy, x, weight});
    dispatch_chunk(x.dtype(), vectors, [&]<class Chunk>() {
        using S = ElementOf<Chunk>;
        launch_norm_backward<false, Chunk>(
            context,
            NormBackward<S>{data_as<S>(dx), dresidual.has_data() ? data_as<S>(dresidual) : nullptr,
                            data_as<S>(dy), data_as<S>(x), nullptr, rstd.as<float>(), weight.as<float>(),
                            rows, columns},
            dweight.as<float>(), nullptr, accumulate);
    });
}

}  // namespace escalier::kernels::cuda
