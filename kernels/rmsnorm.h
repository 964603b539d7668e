// Root-mean-square normalisation (Zhang and Sennrich 2019): y = x * rstd * weight, rstd = 1 / sqrt(mean(x^2)
// + eps). x, y: [R,C]; weight: [C]; rstd: [R].
#pragma once

#include "core/op_context.h"
#include "core/tensor_view.h"
#include "kernels/accumulate.h"

namespace escalier::kernels {

using RmsnormForward = void(const OpContext&, TensorView y, TensorView rstd, TensorView x, TensorView weight,
                            float eps);
// As residual_layernorm_forward: sum = residual + delta (+ delta_bias), stored, then normalised.
using ResidualRmsnormForward = void(const OpContext&, TensorView sum, TensorView y, TensorView rstd,
                                    TensorView residual, TensorView delta, TensorView delta_bias,
                                    TensorView weight, float eps);
// As layernorm_backward.
using RmsnormBackward = void(const OpContext&, TensorView dx, TensorView dweight, TensorView dresidual,
                             TensorView dy, TensorView x, TensorView rstd, TensorView weight,
                             Accumulate accumulate);

}  // namespace escalier::kernels
