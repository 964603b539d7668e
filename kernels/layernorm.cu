// An element of size s. Forward reads x and writes y: 2s; fused with the residual it reads two and writes
// two: 4s. Backward reads dy, x and (where there is one) dresidual and writes dx: 4s, and 8 or 16 bytes for
// every 32 rows go through the partial sums. Floor: those bytes at the speed of memory; gains, biases and
// statistics stay in caches. Expected: 85 % forward, 75 % backward (a block waits for its sums once in four
// rows).
#include "kernels/layernorm.h"

#include "kernels/common/cuda_norm.h"
#include "kernels/common/cuda_norm_backward.h"
#include "kernels/common/cuda_twins.h"

namespace escalier::kernels::cuda {
namespace {

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
    const std::int64_t rows = rows_of(x), columns = columns_of(x);
    if (rows == 0) return;
    dispatch_chunk(x.dtype(), vectors_fit(x.dtype(), columns, {y, x, weight, bias}), [&]<class Chunk>() {
        using S = ElementOf<Chunk>;
        launch_norm_forward<true, false, Chunk>(context, NormForward<S>{nullptr,
                                                                        data_as<S>(y),
                                                                        mean.as<float>(),
                                                                        rstd.as<float>(),
                                                                        data_as<S>(x),
                                                                        nullptr,
                                                                        {},
                                                                        weight.as<float>(),
                                                                        bias.as<float>(),
                                                                        rows,
                                                                        columns,
                                                                        eps});
    });
}

void residual_layernorm_forward(const OpContext& context, TensorView sum, TensorView y, TensorView mean,
                                TensorView rstd, TensorView residual, TensorView delta, TensorView delta_bias,
                                TensorView weight, TensorView bias, float eps) {
    check_rows(y, sum, rstd, weight);
    ESCALIER_CHECK(residual.elements() == sum.elements() && delta.elements() == sum.elements(),
                   "shapes differ");
    const std::int64_t rows = rows_of(sum), columns = columns_of(sum);
    if (rows == 0) return;
    const bool vectors =
        vectors_fit(sum.dtype(), columns, {sum, y, residual, delta, delta_bias, weight, bias});
    dispatch_chunk(sum.dtype(), vectors, [&]<class Chunk>() {
        using S = ElementOf<Chunk>;
        launch_norm_forward<true, true, Chunk>(
            context, NormForward<S>{data_as<S>(sum), data_as<S>(y), mean.as<float>(), rstd.as<float>(),
                                    data_as<S>(residual), data_as<S>(delta), bias_as<S>(delta_bias),
                                    weight.as<float>(), bias.as<float>(), rows, columns, eps});
    });
}

void layernorm_backward(const OpContext& context, TensorView dx, TensorView dweight, TensorView dbias,
                        TensorView dresidual, TensorView dy, TensorView x, TensorView mean, TensorView rstd,
                        TensorView weight, Accumulate accumulate) {
    check_rows(dx, x, rstd, weight);
    ESCALIER_CHECK(dy.elements() == x.elements(), "shapes differ");
    const std::int64_t rows = rows_of(x), columns = columns_of(x);
    const bool vectors = vectors_fit(x.dtype(), columns, {dx, dresidual, dy, x, weight});
    dispatch_chunk(x.dtype(), vectors, [&]<class Chunk>() {
        using S = ElementOf<Chunk>;
        launch_norm_backward<true, Chunk>(
            context,
            NormBackward<S>{data_as<S>(dx), dresidual.has_data() ? data_as<S>(dresidual) : nullptr,
                            data_as<S>(dy), data_as<S>(x), mean.as<float>(), rstd.as<float>(),
                            weight.as<float>(), rows, columns},
            dweight.as<float>(), dbias.as<float>(), accumulate);
    });
}

}  // namespace escalier::kernels::cuda
