// Counts operator new on the calling thread. Link count_allocations.cpp, which replaces it.
#pragma once

#include <cstdint>

namespace escalier::test {

std::int64_t allocations_of_this_thread();  // since the thread began

}  // namespace escalier::test
