// The angles of a RoPE table, the same on every backend. Weights are trained and served with the angles that
// PyTorch computes in fp32 (formats.md 2.3), which at position 8191 lie 6e-4 from the exact ones: each
// operation is done in fp64, where no fusion changes it, and rounded as PyTorch rounds.
#pragma once

#include <cstdint>
#include <numbers>

#include "kernels/rope.h"

namespace escalier::kernels {

constexpr float rounded_quotient(double a, double b) {
    return static_cast<float>(a / b);
}
constexpr float rounded_product(double a, double b) {
    return static_cast<float>(a * b);
}
constexpr float rounded_sum(double a, double b) {
    return static_cast<float>(a + b);
}

// Llama 3.1: long wavelengths are stretched by `factor`, short ones kept, those between interpolated.
constexpr float scaled_frequency(float frequency, const RopeScalingParameters& scaling) {
    if (scaling.factor == 0) return frequency;
    const auto factor = static_cast<float>(scaling.factor);
    const auto low = static_cast<float>(scaling.low_freq_factor);
    const auto original = static_cast<float>(scaling.original_max_positions);
    // A number over a tensor is its reciprocal times the number there.
    const float wavelength =
        rounded_product(rounded_quotient(1.0, frequency), static_cast<float>(2 * std::numbers::pi));
    if (wavelength > static_cast<float>(scaling.original_max_positions / scaling.low_freq_factor))
        return rounded_quotient(frequency, factor);
    if (wavelength < static_cast<float>(scaling.original_max_positions / scaling.high_freq_factor))
        return frequency;
    const float periods = rounded_product(rounded_quotient(1.0, wavelength), original);
    const float smooth = rounded_quotient(
        rounded_sum(periods, -low), static_cast<float>(scaling.high_freq_factor - scaling.low_freq_factor));
    const float stretched = rounded_quotient(rounded_product(rounded_sum(1.0, -smooth), frequency), factor);
    return rounded_sum(stretched, rounded_product(smooth, frequency));
}

// m / half.
constexpr double rope_exponent(std::int64_t m, std::int64_t half) {
    return rounded_quotient(static_cast<double>(m), static_cast<double>(half));
}

// power: theta^rope_exponent(m, half), by the backend's pow.
constexpr float rope_frequency(double power, const RopeScalingParameters& scaling) {
    return scaled_frequency(rounded_quotient(1.0, static_cast<float>(power)), scaling);
}

// In radians.
constexpr double rope_angle(std::int64_t position, float frequency) {
    return rounded_product(static_cast<float>(position), frequency);
}

}  // namespace escalier::kernels
