// Layer normalisation over the last axis (Ba et al. 2016): y = (x - mean) * rstd * weight + bias, with
// rstd = 1 / sqrt(variance + eps). x, y: [R,C]; weight, bias: [C]; mean, rstd: [R].
#pragma once

#include "core/op_context.h"
#include "core/tensor_view.h"
#include "kernels/accumulate.h"

namespace escalier::kernels {

using LayernormForward = void(const OpContext&, TensorView y, TensorView mean, TensorView rstd, TensorView x,
                              TensorView weight, TensorView bias, float eps);
// sum = residual + delta (+ delta_bias[C] if it has data), stored, then y = layernorm(sum) of the stored
// values: the same bits as residual_add followed by layernorm_forward. sum may be delta or residual.
using ResidualLayernormForward = void(const OpContext&, TensorView sum, TensorView y, TensorView mean,
                                      TensorView rstd, TensorView residual, TensorView delta,
                                      TensorView delta_bias, TensorView weight, TensorView bias, float eps);
// dx = dresidual + the gradient through the norm, where dresidual[R,C] (no data: zero) is the gradient that
// reaches x past the norm; dx may be dresidual. dweight, dbias: [C], (+)= sums over rows in a fixed order.
using LayernormBackward = void(const OpContext&, TensorView dx, TensorView dweight, TensorView dbias,
                               TensorView dresidual, TensorView dy, TensorView x, TensorView mean,
                               TensorView rstd, TensorView weight, Accumulate accumulate);

}  // namespace escalier::kernels
