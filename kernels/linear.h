// Linear layers: y[R,N] = x[R,K] W^T + bias, W: [N,K]. A library multiplies the matrices, over a tile grid
// that is fixed by the shape; the epilogue runs on each tile while it is in cache.
#pragma once

#include "core/op_context.h"
#include "core/tensor_view.h"
#include "kernels/accumulate.h"

namespace escalier::kernels {

enum class Epilogue {
    none,
    gelu  // tanh form (Hendrycks and Gimpel 2016): 0.5 z (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3)))
};

// Elements of the prepared form of W [N,K] for activations of type `storage`; 0 where the backend multiplies
// with W as it is.
using PreparedWeightElements = std::int64_t(std::int64_t n, std::int64_t k, DType storage);
// Fills the prepared form, W in the type `storage`, when weights are set; later the optimizer writes it with
// every new weight (OptimizerTensor::shadow).
using PrepareWeight = void(const OpContext&, TensorView prepared, TensorView weight);

// z = x W^T + bias (bias without data: none). none: y = z. gelu: pre = z is kept for the backward pass, y =
// gelu(z). prepared: from prepare_weight, or without data.
using LinearForward = void(const OpContext&, TensorView y, TensorView pre, TensorView x, TensorView weight,
                           TensorView prepared, TensorView bias, Epilogue epilogue);
// dx[R,K] (+)= dy[R,N] W. With gelu, dx is multiplied by gelu'(pre), pre: [R,K] (overwrite only).
using LinearBackwardInput = void(const OpContext&, TensorView dx, TensorView dy, TensorView weight,
                                 TensorView prepared, TensorView pre, Epilogue epilogue,
                                 Accumulate accumulate);
// dweight[N,K] (+)= dy^T x; dbias[N] (+)= the column sums of dy (dbias without data: none).
using LinearBackwardWeight = void(const OpContext&, TensorView dweight, TensorView dbias, TensorView dy,
                                  TensorView x, Accumulate accumulate);

}  // namespace escalier::kernels
