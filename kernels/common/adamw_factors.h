// What the update of AdamW needs of its parameters, the same numbers for every backend.
#pragma once

#include <cmath>

#include "kernels/optimizer_step.h"

namespace escalier::kernels {

struct AdamwFactors {
    float decay;  // 1 - lr * weight_decay
    float beta1, one_minus_beta1, beta2, one_minus_beta2;
    float step_size;          // lr / (1 - beta1^step)
    float rsqrt_correction2;  // 1 / sqrt(1 - beta2^step)
    float eps, gradient_scale;
};

inline AdamwFactors adamw_factors(const AdamwParameters& p) {
    const double step = static_cast<double>(p.step);
    const double correction1 = 1.0 - std::pow(static_cast<double>(p.beta1), step);
    const double correction2 = 1.0 - std::pow(static_cast<double>(p.beta2), step);
    return {static_cast<float>(1.0 - static_cast<double>(p.lr) * p.weight_decay),
            p.beta1,
            static_cast<float>(1.0 - static_cast<double>(p.beta1)),
            p.beta2,
            static_cast<float>(1.0 - static_cast<double>(p.beta2)),
            static_cast<float>(p.lr / correction1),
            static_cast<float>(1.0 / std::sqrt(correction2)),
            p.eps,
            p.gradient_scale};
}

}  // namespace escalier::kernels
