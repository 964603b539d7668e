// Weights as numbers that show whether they are equal to the bit.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/tensor_view.h"

namespace escalier::test {

// A hash of the bits of an f32 tensor that a double holds exactly: equal for equal weights, and hardly ever
// otherwise.
inline double fingerprint(const TensorView& weight) {
    std::uint64_t hash = 14695981039346656037ull;
    for (std::int64_t i = 0; i < weight.elements(); ++i) {
        std::uint32_t bits;
        std::memcpy(&bits, weight.as<float>() + i, sizeof bits);
        hash = (hash ^ bits) * 1099511628211ull;
    }
    return static_cast<double>(hash >> 12);
}

}  // namespace escalier::test
