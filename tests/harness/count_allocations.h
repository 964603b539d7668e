// Counts operator new on the calling thread, and the bytes that it holds. Link count_allocations.cpp, which
// replaces it.
#pragma once

#include <cstdint>

namespace escalier::test {

std::int64_t allocations_of_this_thread();  // since the thread began

// The most bytes that the thread held at once since the last call of start_peak(), beyond what it held then.
// Memory that another thread frees counts as held.
void start_peak();
std::int64_t peak_bytes();

}  // namespace escalier::test
