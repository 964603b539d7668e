// Sums of rows that several ops share; the fused norms and residual_add must agree bit for bit.
#pragma once

#include <cstdint>

namespace escalier::kernels {

// out += in.
void add_row(float* out, const float* in, std::int64_t n);
// out = residual + (delta + bias). bias may be null; out may be residual or delta.
void residual_row(float* out, const float* residual, const float* delta, const float* bias,
                  std::int64_t columns);

}  // namespace escalier::kernels
