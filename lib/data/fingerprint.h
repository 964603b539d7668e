// Content hashes that tell one data set from another. Not cryptographic.
#pragma once

#include <cstddef>
#include <cstdint>

namespace escalier::data {

// Order-dependent mix of two 64-bit values (finaliser of splitmix64).
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
    std::uint64_t z = hash * 0x9E3779B97F4A7C15ull + value + 0x632BE59BD9B4E019ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

// All bytes up to 64 MiB; beyond that 64 evenly spaced blocks of 1 MiB, first and last included. Always the
// size.
std::uint64_t hash_contents(const std::byte* bytes, std::int64_t size);

}  // namespace escalier::data
