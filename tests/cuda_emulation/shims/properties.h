// The device that is stood in for: an H200, with few multiprocessors so that grids stay small.
#pragma once

#include <cstddef>

namespace escalier::cuda_emulation {

inline constexpr std::size_t always_shared_bytes = 48 * 1024;  // of a block, without asking
inline constexpr std::size_t most_shared_bytes = 227 * 1024;   // of a block, by attribute
inline constexpr int multiprocessors = 4;

// ESCALIER_CUDA_DEVICES (8): how many there are; 0: none, -1: no driver either. CUDA_VISIBLE_DEVICES picks
// from them.
int device_count();
// The number that a visible device has on its host.
int physical_device(int device);
// ESCALIER_CUDA_MEMORY: bytes of each device (16 GiB).
std::size_t device_memory();

}  // namespace escalier::cuda_emulation
