// bfloat16: the upper half of a float; as storage only, computing is done in float.
#pragma once

#include <bit>
#include <cstdint>

#include "core/dtype.h"

namespace escalier {

struct BFloat16 {
    std::uint16_t bits;
};

inline float to_float(BFloat16 value) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

// Rounds to nearest, ties to even. NaN stays NaN, whatever its low bits.
inline BFloat16 to_bfloat16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<std::uint16_t>(bits >> 16 | 0x0040u)};
    return {static_cast<std::uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16)};
}

template <>
constexpr DType dtype_of<BFloat16>() {
    return DType::bf16;
}

}  // namespace escalier
