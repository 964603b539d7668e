// Warp operations under CUDA's names. A lane outside the mask, or one that a shuffle reads though it is not
// in the mask, ends the program (block.h).
#pragma once

#include <cstring>

#include "cuda_emulation/block.h"

namespace escalier::cuda_emulation {

// slot.argument: the lane read from. Values of up to 16 bytes.
void exchange(Thread* warp, std::uint32_t mask);
std::uint32_t vote(std::uint32_t mask, bool predicate);

template <class T>
T shuffle(std::uint32_t mask, T value, int source) {
    static_assert(sizeof(T) <= sizeof(LaneSlot::out));
    Thread* me = self;
    std::memcpy(me->slot.in, &value, sizeof value);
    me->slot.argument = static_cast<std::uint32_t>(source);
    warp_collective(WarpOperation::shuffle, mask, &exchange);
    std::memcpy(static_cast<void*>(&value), me->slot.out, sizeof value);
    return value;
}

template <class T>
T reduce(std::uint32_t mask, T value, T (*join)(T, T)) {
    T result = value;
    bool first = true;
    for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
        const T other = shuffle(mask, value, __builtin_ctz(rest));
        result = first ? other : join(result, other);
        first = false;
    }
    return result;
}

}  // namespace escalier::cuda_emulation

inline void __syncthreads(int line = __builtin_LINE()) {
    escalier::cuda_emulation::block_barrier(0, line);
}
inline int __syncthreads_count(int predicate, int line = __builtin_LINE()) {
    return escalier::cuda_emulation::block_barrier(predicate != 0, line);
}
inline int __syncthreads_or(int predicate, int line = __builtin_LINE()) {
    return __syncthreads_count(predicate, line) > 0;
}
inline int __syncthreads_and(int predicate, int line = __builtin_LINE()) {
    return __syncthreads_count(predicate == 0, line) == 0;
}
inline void __syncwarp(unsigned mask) {
    escalier::cuda_emulation::warp_collective(escalier::cuda_emulation::WarpOperation::sync, mask,
                                              [](escalier::cuda_emulation::Thread*, std::uint32_t) {});
}

// A lane whose source lies outside its section of `width` lanes keeps its own value.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    const int lane = static_cast<int>(escalier::cuda_emulation::self->lane());
    return escalier::cuda_emulation::shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
    const int lane = static_cast<int>(escalier::cuda_emulation::self->lane());
    const int source = lane ^ bits;
    return escalier::cuda_emulation::shuffle(mask, value,
                                             source >= (lane & ~(width - 1)) + width ? lane : source);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32) {
    const int lane = static_cast<int>(escalier::cuda_emulation::self->lane());
    const bool inside = (lane & (width - 1)) + static_cast<int>(distance) < width;
    return escalier::cuda_emulation::shuffle(mask, value, inside ? lane + static_cast<int>(distance) : lane);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32) {
    const int lane = static_cast<int>(escalier::cuda_emulation::self->lane());
    const bool inside = (lane & (width - 1)) >= static_cast<int>(distance);
    return escalier::cuda_emulation::shuffle(mask, value, inside ? lane - static_cast<int>(distance) : lane);
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
    return escalier::cuda_emulation::vote(mask, predicate != 0);
}
inline int __any_sync(unsigned mask, int predicate) {
    return __ballot_sync(mask, predicate) != 0;
}
inline int __all_sync(unsigned mask, int predicate) {
    return __ballot_sync(mask, predicate) == mask;
}

inline unsigned __reduce_add_sync(unsigned mask, unsigned value) {
    return escalier::cuda_emulation::reduce<unsigned>(mask, value,
                                                      [](unsigned a, unsigned b) { return a + b; });
}
inline int __reduce_max_sync(unsigned mask, int value) {
    return escalier::cuda_emulation::reduce<int>(mask, value, [](int a, int b) { return a > b ? a : b; });
}
inline int __reduce_min_sync(unsigned mask, int value) {
    return escalier::cuda_emulation::reduce<int>(mask, value, [](int a, int b) { return a < b ? a : b; });
}
