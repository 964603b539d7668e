// Root-mean-square normalisation of one row (a hidden vector, or one head of it) and its gradient.
#pragma once

#include <cstdint>

namespace escalier::kernels {

void rms_row_forward(float* y, float* rstd, const float* x, const float* weight, std::int64_t columns,
                     float eps);
// dx = dresidual (may be null) + the gradient through the norm; dweight += the row's share. dx may be
// dresidual or dy.
void rms_row_backward(float* dx, float* dweight, const float* dresidual, const float* dy, const float* x,
                      float rstd, const float* weight, std::int64_t columns);

}  // namespace escalier::kernels
