// This process and this machine, as the kernel sees them.
#pragma once

#include <cstdint>

namespace escalier {

// The most that was ever resident of this process, in bytes, since it started (VmHWM); 0 where /proc does not
// tell.
std::int64_t peak_resident_bytes();

// What this process may use together with all others: the machine's memory, or the limit of its control
// group.
std::int64_t machine_memory_bytes();

// Cores that this process may run on.
int allowed_cores();

}  // namespace escalier
