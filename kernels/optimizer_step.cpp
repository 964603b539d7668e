#include "kernels/optimizer_step.h"

#include <cmath>

#include "kernels/common/adamw_factors.h"
#include "kernels/common/blocks.h"
#include "kernels/common/cpu_twins.h"
#include "kernels/common/simd.h"

namespace escalier::kernels::cpu {
namespace {

ESCALIER_VECTORIZED void adamw_range(float* __restrict weight, const float* __restrict gradient,
                                     float* __restrict m, float* __restrict v, std::int64_t n,
                                     const AdamwFactors& factors) {
    const AdamwFactors f = factors;
    for (std::int64_t i = 0; i < n; ++i) {
        const float g = gradient[i] * f.gradient_scale;
        m[i] = f.beta1 * m[i] + f.one_minus_beta1 * g;
        v[i] = f.beta2 * v[i] + f.one_minus_beta2 * g * g;
        const float denominator = std::sqrt(v[i]) * f.rsqrt_correction2 + f.eps;
        weight[i] = weight[i] * f.decay - f.step_size * m[i] / denominator;
    }
}

ESCALIER_VECTORIZED void sgd_range(float* __restrict weight, const float* __restrict gradient, std::int64_t n,
                                   const SgdParameters& parameters) {
    const SgdParameters p = parameters;
    for (std::int64_t i = 0; i < n; ++i)
        weight[i] -= p.lr * (gradient[i] * p.gradient_scale + p.weight_decay * weight[i]);
}

void update_shadow(const OpContext& context, const OptimizerTensor& tensor) {
    if (tensor.shadow.has_data()) copy(context, tensor.shadow, tensor.weight);
}

}  // namespace

void adamw_step(const OpContext& context, std::span<const OptimizerTensor> tensors,
                const AdamwParameters& parameters) {
    ESCALIER_CHECK(parameters.step >= 1, "steps count from 1");
    for (const OptimizerTensor& tensor : tensors) {
        const std::int64_t n = tensor.weight.elements();
        ESCALIER_CHECK(tensor.gradient.elements() == n && tensor.first_moment.elements() == n &&
                           tensor.second_moment.elements() == n,
                       "shapes differ");
        AdamwParameters own = parameters;
        if (!tensor.decay) own.weight_decay = 0;
        const AdamwFactors factors = adamw_factors(own);
        float *w = tensor.weight.as<float>(), *first = tensor.first_moment.as<float>(),
              *second = tensor.second_moment.as<float>();
        const float* g = tensor.gradient.as<float>();
        for_blocks(context, n, elements_per_task, [&](std::int64_t begin, std::int64_t end, int) {
            adamw_range(w + begin, g + begin, first + begin, second + begin, end - begin, factors);
        });
        update_shadow(context, tensor);
    }
}

void sgd_step(const OpContext& context, std::span<const OptimizerTensor> tensors,
              const SgdParameters& parameters) {
    for (const OptimizerTensor& tensor : tensors) {
        const std::int64_t n = tensor.weight.elements();
        ESCALIER_CHECK(tensor.gradient.elements() == n, "shapes differ");
        SgdParameters own = parameters;
        if (!tensor.decay) own.weight_decay = 0;
        float* w = tensor.weight.as<float>();
        const float* g = tensor.gradient.as<float>();
        for_blocks(context, n, elements_per_task, [&](std::int64_t begin, std::int64_t end, int) {
            sgd_range(w + begin, g + begin, end - begin, own);
        });
        update_shadow(context, tensor);
    }
}

}  // namespace escalier::kernels::cpu
