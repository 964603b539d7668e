// The frequencies of a RoPE table, the same on every backend.
#pragma once

#include <numbers>

#include "kernels/rope.h"

namespace escalier::kernels {

// Llama 3.1: long wavelengths are stretched by `factor`, short ones kept, those between interpolated.
constexpr double scaled_frequency(double frequency, const RopeScalingParameters& scaling) {
    if (scaling.factor == 0) return frequency;
    const double wavelength = 2 * std::numbers::pi / frequency;
    if (wavelength > scaling.original_max_positions / scaling.low_freq_factor)
        return frequency / scaling.factor;
    if (wavelength < scaling.original_max_positions / scaling.high_freq_factor) return frequency;
    const double smooth = (scaling.original_max_positions / wavelength - scaling.low_freq_factor) /
                          (scaling.high_freq_factor - scaling.low_freq_factor);
    return (1 - smooth) * frequency / scaling.factor + smooth * frequency;
}

}  // namespace escalier::kernels
