#include "tests/harness/count_allocations.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {

thread_local std::int64_t allocations = 0;
thread_local std::int64_t held = 0, start = 0, peak = 0;

void* counted(std::size_t bytes) {
    void* memory = std::malloc(bytes ? bytes : 1);
    ++allocations;
    held += static_cast<std::int64_t>(malloc_usable_size(memory));
    peak = std::max(peak, held);
    return memory;
}

void release(void* memory) {
    held -= static_cast<std::int64_t>(malloc_usable_size(memory));
    std::free(memory);
}

}  // namespace

namespace escalier::test {

std::int64_t allocations_of_this_thread() {
    return allocations;
}

void start_peak() {
    start = peak = held;
}

std::int64_t peak_bytes() {
    return peak - start;
}

}  // namespace escalier::test

void* operator new(std::size_t bytes) {
    if (void* memory = counted(bytes)) return memory;
    throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    return counted(bytes);
}
void operator delete(void* memory) noexcept {
    release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    release(memory);
}
