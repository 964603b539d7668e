// What is known of an address.
#pragma once

#include <cstddef>

namespace escalier::cuda_emulation {

// Whether a device may read and write these bytes: device memory or pinned host memory, all of one
// allocation. Under the lock of Queues.
bool reachable_by_device(const void* memory, std::size_t bytes);

}  // namespace escalier::cuda_emulation
