// Device functions that neither the C library nor CUDA's headers bring to a host compiler.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda_emulation/instructions.h"

// Arithmetic. The fast forms are exact here: no test may rest on their error.
inline float rsqrtf(float x) {
    return 1.0f / std::sqrt(x);
}
inline float __expf(float x) {
    return std::exp(x);
}
inline float __logf(float x) {
    return std::log(x);
}
inline float __fdividef(float x, float y) {
    return x / y;
}
inline float __frcp_rn(float x) {
    return 1.0f / x;
}
inline float __fsqrt_rn(float x) {
    return std::sqrt(x);
}
inline float __fadd_rn(float x, float y) {
    return x + y;
}
inline float __fmul_rn(float x, float y) {
    return x * y;
}
inline float __fmaf_rn(float x, float y, float z) {
    return std::fma(x, y, z);
}

inline unsigned __umulhi(unsigned x, unsigned y) {
    return static_cast<unsigned>(std::uint64_t{x} * y >> 32);
}
inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}
inline int __ffs(int x) {
    return __builtin_ffs(x);
}
inline int __clz(int x) {
    return x ? __builtin_clz(static_cast<unsigned>(x)) : 32;
}

template <class To, class From>
To escalier_same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}
inline float __uint_as_float(unsigned x) {
    return escalier_same_bits<float>(x);
}
inline float __int_as_float(int x) {
    return escalier_same_bits<float>(x);
}
inline unsigned __float_as_uint(float x) {
    return escalier_same_bits<unsigned>(x);
}
inline int __float_as_int(float x) {
    return escalier_same_bits<int>(x);
}
inline long long __double_as_longlong(double x) {
    return escalier_same_bits<long long>(x);
}
inline double __longlong_as_double(long long x) {
    return escalier_same_bits<double>(x);
}

template <class T>
requires std::is_arithmetic_v<T>
constexpr T min(T a, T b) {
    return b < a ? b : a;
}
template <class T>
requires std::is_arithmetic_v<T>
constexpr T max(T a, T b) {
    return a < b ? b : a;
}

// Memory. Cache hints have no meaning here.
template <class T>
T escalier_load(const T* from) {
    if constexpr (sizeof(T) == 16)
        escalier::cuda_emulation::require_aligned(from, "a misaligned 16-byte load");
    return *from;
}
template <class T>
void escalier_store(T* to, T value) {
    if constexpr (sizeof(T) == 16)
        escalier::cuda_emulation::require_aligned(to, "a misaligned 16-byte store");
    *to = value;
}
template <class T>
T __ldg(const T* from) {
    return escalier_load(from);
}
template <class T>
T __ldcs(const T* from) {
    return escalier_load(from);
}
template <class T>
T __ldcg(const T* from) {
    return escalier_load(from);
}
template <class T>
void __stcs(T* to, T value) {
    escalier_store(to, value);
}
template <class T>
void __stcg(T* to, T value) {
    escalier_store(to, value);
}
// Threads take turns, so that nothing has to be fenced.
inline void __threadfence() {}
inline void __threadfence_block() {}

// Atomics on integers alone: those on floats would make results depend on the order of threads.
template <class T>
requires std::is_integral_v<T> T atomicAdd(T* address, std::type_identity_t<T> value) {
    return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}
template <class T>
requires std::is_integral_v<T> T atomicExch(T* address, std::type_identity_t<T> value) {
    return __atomic_exchange_n(address, value, __ATOMIC_RELAXED);
}
template <class T>
requires std::is_integral_v<T> T atomicCAS(T* address, std::type_identity_t<T> expected,
                                           std::type_identity_t<T> value) {
    __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
template <class T>
requires std::is_integral_v<T> T atomicMax(T* address, std::type_identity_t<T> value) {
    T old = __atomic_load_n(address, __ATOMIC_RELAXED);
    while (old < value &&
           !__atomic_compare_exchange_n(address, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}
template <class T>
requires std::is_integral_v<T> T atomicOr(T* address, std::type_identity_t<T> value) {
    return __atomic_fetch_or(address, value, __ATOMIC_RELAXED);
}
