// exp and what is made of it, on lanes, to about 2 units in the last place.
#pragma once

#include "kernels/common/simd.h"

namespace escalier::kernels {

// Cody-Waite reduction by ln 2 and the polynomial of Cephes' expf (Moshier). Subnormal results, overflow to
// infinity and NaN come out as they should.
ESCALIER_INLINE FloatLanes exp_lanes(FloatLanes x) {
    constexpr float rounder = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
    constexpr std::int32_t rounder_bits = 0x4B400000;
    x = x < -110.0f ? broadcast(-110.0f) : x;
    x = x > 90.0f ? broadcast(90.0f) : x;
    const FloatLanes shifted = x * 1.44269504088896341f + rounder;
    const IntLanes exponent = std::bit_cast<IntLanes>(shifted) - rounder_bits;
    const FloatLanes whole = shifted - rounder;
    const FloatLanes r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    FloatLanes p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    // 2^exponent in two factors, because one float cannot hold 2^128 or 2^-150.
    const IntLanes half = exponent >> 1;
    const FloatLanes scale1 = std::bit_cast<FloatLanes>((half + 127) << 23);
    const FloatLanes scale2 = std::bit_cast<FloatLanes>((exponent - half + 127) << 23);
    return p * scale1 * scale2;
}

// 1 / (1 + exp(-x)).
ESCALIER_INLINE FloatLanes sigmoid_lanes(FloatLanes x) {
    return 1.0f / (1.0f + exp_lanes(-x));
}

// The tanh form of GELU is z * sigmoid(2u) with u = sqrt(2/pi) (z + 0.044715 z^3).
ESCALIER_INLINE FloatLanes gelu_sigmoid(FloatLanes z) {
    constexpr float twice_sqrt_2_over_pi = 1.5957691216057308f;
    return sigmoid_lanes(twice_sqrt_2_over_pi * (z + 0.044715f * z * z * z));
}
ESCALIER_INLINE FloatLanes gelu_lanes(FloatLanes z) {
    return z * gelu_sigmoid(z);
}
ESCALIER_INLINE FloatLanes gelu_derivative_lanes(FloatLanes z) {
    constexpr float twice_sqrt_2_over_pi = 1.5957691216057308f;
    const FloatLanes s = gelu_sigmoid(z);
    return s + z * s * (1.0f - s) * twice_sqrt_2_over_pi * (1.0f + 3.0f * 0.044715f * z * z);
}

}  // namespace escalier::kernels
