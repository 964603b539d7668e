// Optimizer updates of one tensor, one sweep each. All views have equally many elements.
#pragma once

#include "core/op_context.h"
#include "core/tensor_view.h"

namespace escalier::kernels {

struct AdamwParameters {  // decoupled weight decay (Loshchilov and Hutter 2019), bias-corrected
    float lr, beta1, beta2, eps, weight_decay;
    float gradient_scale;  // clipping: gradients are multiplied by it first
    std::int64_t step;     // from 1
};
using AdamwStep = void(const OpContext&, TensorView weight, TensorView gradient, TensorView m, TensorView v,
                       const AdamwParameters& parameters);

struct SgdParameters {
    float lr, weight_decay, gradient_scale;
};
// weight -= lr * (gradient * gradient_scale + weight_decay * weight).
using SgdStep = void(const OpContext&, TensorView weight, TensorView gradient,
                     const SgdParameters& parameters);

}  // namespace escalier::kernels
