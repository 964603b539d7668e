// Sixteen floats at a time, in GCC's and Clang's vector notation. A loop written with it has one order of
// summation whatever the instruction set, and the compiler lowers it to AVX2 or AVX-512.
//
// ESCALIER_VECTORIZED marks a function that is compiled for both and chosen at program start; everything it
// calls is inlined into it, so that nothing falls back to the narrower set.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

// The sanitizers are not set up yet when the choice is made, and Clang cannot combine the two attributes:
// there only the AVX2 version is built.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
#define ESCALIER_VECTORIZED
#else
#define ESCALIER_VECTORIZED __attribute__((target_clones("default", "avx512f"), flatten))
#endif
#define ESCALIER_INLINE [[gnu::always_inline]] inline

namespace escalier::kernels {

inline constexpr std::int64_t lane_count = 16;
using FloatLanes = float __attribute__((vector_size(64)));
using IntLanes = std::int32_t __attribute__((vector_size(64)));

// How many lanes a step of a sweep uses: all of them, or the first few at the end of a row.
struct AllLanes {};
struct FirstLanes {
    std::int64_t count;
};

// body(index, lanes) for index 0, 16, 32 …: AllLanes but for a shorter end.
template <class Body>
ESCALIER_INLINE void sweep(std::int64_t n, Body body) {
    std::int64_t i = 0;
    for (; i + lane_count <= n; i += lane_count) body(i, AllLanes{});
    if (i < n) body(i, FirstLanes{n - i});
}

ESCALIER_INLINE FloatLanes broadcast(float value) {
    return value - FloatLanes{};
}
ESCALIER_INLINE FloatLanes load(const float* from, AllLanes, float = 0.0f) {
    FloatLanes out;
    std::memcpy(&out, from, sizeof(out));
    return out;
}
ESCALIER_INLINE FloatLanes load(const float* from, FirstLanes lanes, float fill = 0.0f) {
    FloatLanes out = broadcast(fill);
    for (std::int64_t lane = 0; lane < lanes.count; ++lane) out[lane] = from[lane];
    return out;
}
ESCALIER_INLINE void store(float* to, FloatLanes value, AllLanes) {
    std::memcpy(to, &value, sizeof(value));
}
ESCALIER_INLINE void store(float* to, FloatLanes value, FirstLanes lanes) {
    for (std::int64_t lane = 0; lane < lanes.count; ++lane) to[lane] = value[lane];
}

ESCALIER_INLINE FloatLanes maximum(FloatLanes a, FloatLanes b) {
    return a > b ? a : b;
}

// Horizontal sum and maximum, halving: lane i with lane i + 8, then 4, 2, 1.
ESCALIER_INLINE float sum_of(FloatLanes value) {
    float lanes[lane_count];
    std::memcpy(lanes, &value, sizeof(lanes));
    for (int width = lane_count / 2; width > 0; width /= 2)
        for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
    return lanes[0];
}
ESCALIER_INLINE float maximum_of(FloatLanes value) {
    float lanes[lane_count];
    std::memcpy(lanes, &value, sizeof(lanes));
    for (int width = lane_count / 2; width > 0; width /= 2)
        for (int i = 0; i < width; ++i) lanes[i] = lanes[i] > lanes[i + width] ? lanes[i] : lanes[i + width];
    return lanes[0];
}

}  // namespace escalier::kernels
