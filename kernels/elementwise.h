// Sweeps over whole tensors.
#pragma once

#include "core/op_context.h"
#include "core/tensor_view.h"

namespace escalier::kernels {

// sum[R,C] = residual + delta (+ delta_bias[C] if it has data); sum may be residual or delta.
using ResidualAdd = void(const OpContext&, TensorView sum, TensorView residual, TensorView delta,
                         TensorView delta_bias);
using Fill = void(const OpContext&, TensorView x, float value);
using Copy = void(const OpContext&, TensorView out, TensorView in);  // same dtype and number of elements
using Add = void(const OpContext&, TensorView out, TensorView in);   // out += in
// The sum of squares of x, in double, over fixed blocks in a fixed order.
using SumOfSquares = double(const OpContext&, TensorView x);
// How many elements are NaN or infinite.
using CountNonfinite = std::int64_t(const OpContext&, TensorView x);

}  // namespace escalier::kernels
