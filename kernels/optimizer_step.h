// Optimizer updates of all of a rank's tensors, one sweep over each.
#pragma once

#include <span>

#include "core/op_context.h"
#include "core/tensor_view.h"

namespace escalier::kernels {

// All views have equally many elements.
struct OptimizerTensor {
    TensorView weight, gradient;             // f32
    TensorView first_moment, second_moment;  // f32; of adamw only
    TensorView shadow;   // the new weight once more, in the type that products read; may be without data
    bool decay = false;  // false: weight decay leaves it alone
};

struct AdamwParameters {  // decoupled weight decay (Loshchilov and Hutter 2019), bias-corrected
    float lr, beta1, beta2, eps, weight_decay;
    float gradient_scale;  // clipping: gradients are multiplied by it first
    std::int64_t step;     // from 1
};
using AdamwStep = void(const OpContext&, std::span<const OptimizerTensor> tensors,
                       const AdamwParameters& parameters);

struct SgdParameters {
    float lr, weight_decay, gradient_scale;
};
// weight -= lr * (gradient * gradient_scale + weight_decay * weight).
using SgdStep = void(const OpContext&, std::span<const OptimizerTensor> tensors,
                     const SgdParameters& parameters);

}  // namespace escalier::kernels
