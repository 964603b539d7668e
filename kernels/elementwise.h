// Sweeps over whole tensors.
#pragma once

#include <span>

#include "core/op_context.h"
#include "core/tensor_view.h"
#include "kernels/accumulate.h"

namespace escalier::kernels {

// sum[R,C] = residual + delta (+ delta_bias[C] if it has data); sum may be residual or delta.
using ResidualAdd = void(const OpContext&, TensorView sum, TensorView residual, TensorView delta,
                         TensorView delta_bias);
using Fill = void(const OpContext&, TensorView x, float value);
// out = in, of equally many elements; between f32 and bf16 it converts (to nearest, ties to even).
using Copy = void(const OpContext&, TensorView out, TensorView in);
using Add = void(const OpContext&, TensorView out, TensorView in);  // out += in
// out[n] = parts[0] + parts[1] + …, parts: [P,n]; summed in that order in fp32 and rounded once.
using SumParts = void(const OpContext&, TensorView out, TensorView parts);

struct SumTerm {
    TensorView x;
    std::int64_t place;
};
// sums[place] = the sum of squares of x for every term, in double, over fixed blocks in a fixed order. sums:
// f64; places that no term names stay.
using SumOfSquares = void(const OpContext&, TensorView sums, std::span<const SumTerm> terms);
// count[0] (+)= how many elements of x are NaN or infinite. count: f64.
using CountNonfinite = void(const OpContext&, TensorView count, TensorView x, Accumulate accumulate);

}  // namespace escalier::kernels
