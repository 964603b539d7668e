// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). A draw is a pure function of key and counter, so it depends on neither grid nor call order.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace escalier {

using PhiloxBlock = std::array<std::uint32_t, 4>;

constexpr PhiloxBlock philox(std::uint64_t key, std::uint64_t counter_high, std::uint64_t counter_low) {
    std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
    PhiloxBlock c = {static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
                     static_cast<std::uint32_t>(counter_high),
                     static_cast<std::uint32_t>(counter_high >> 32)};
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
        const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
        c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
             static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

// In [0, 1).
inline float uniform(std::uint32_t bits) {
    return static_cast<float>(bits >> 8) * 0x1p-24f;
}

// Standard normals 2 * pair and 2 * pair + 1 of the stream (seed, stream): Box-Muller in double.
inline std::array<float, 2> normal_pair(std::uint64_t seed, std::uint64_t stream, std::uint64_t pair) {
    const PhiloxBlock block = philox(seed, stream, pair);
    const std::uint64_t a = (std::uint64_t{block[0]} << 32 | block[1]) >> 11;
    const std::uint64_t b = (std::uint64_t{block[2]} << 32 | block[3]) >> 11;
    const double u1 = (static_cast<double>(a) + 1.0) * 0x1p-53;  // (0, 1]
    const double u2 = static_cast<double>(b) * 0x1p-53;          // [0, 1)
    const double radius = std::sqrt(-2.0 * std::log(u1)), angle = 6.283185307179586476925 * u2;
    return {static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))};
}

inline float normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
    return normal_pair(seed, stream, index / 2)[index % 2];
}

// 64-bit FNV-1a: names a stream after a parameter.
constexpr std::uint64_t stream_of(std::string_view name) {
    std::uint64_t hash = 14695981039346656037ull;
    for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
    return hash;
}

}  // namespace escalier
