// The seed that every order is drawn from: of threads in a block, of blocks in a grid, of work on streams.
#pragma once

#include <cstdint>

namespace escalier::cuda_emulation {

// ESCALIER_CUDA_SEED, or 1. With 0 nothing is shuffled: threads and blocks go in order.
std::uint64_t seed();
void set_seed(std::uint64_t seed);  // for tests that try several

// SplitMix64 (Steele, Lea, Flood 2014).
class Random {
 public:
    explicit Random(std::uint64_t seed = 0) : state_(seed) {}
    std::uint64_t operator()() {
        std::uint64_t z = state_ += 0x9E3779B97F4A7C15ull;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        return z ^ (z >> 31);
    }
    std::uint32_t below(std::uint32_t bound) {
        return static_cast<std::uint32_t>(((*this)() >> 32) * bound >> 32);
    }

 private:
    std::uint64_t state_;
};

}  // namespace escalier::cuda_emulation
