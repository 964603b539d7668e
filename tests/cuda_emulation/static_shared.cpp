#include "cuda_emulation/static_shared.h"

#include <link.h>

#include <cstdint>
#include <cstring>

#include "cuda_emulation/sanitizers.h"

namespace escalier::cuda_emulation {
namespace {

struct ThreadMemory {
    unsigned char* begin = nullptr;
    std::size_t bytes = 0;
};

// Touched first, for the memory of a library is made on first use.
thread_local char anything = 0;

// The thread's memory of the program or library that this code is part of.
ThreadMemory find_thread_memory() {
    volatile char* touched = &anything;
    *touched = 0;
    ThreadMemory found;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* out) {
            for (int i = 0; i < info->dlpi_phnum; ++i) {
                const auto& segment = info->dlpi_phdr[i];
                auto* begin = static_cast<unsigned char*>(info->dlpi_tls_data);
                const auto address = reinterpret_cast<std::uintptr_t>(&anything);
                const auto start = reinterpret_cast<std::uintptr_t>(begin);
                if (segment.p_type != PT_TLS || !begin || address < start ||
                    address >= start + segment.p_memsz)
                    continue;
                *static_cast<ThreadMemory*>(out) = {begin, segment.p_memsz};
                return 1;
            }
            return 0;
        },
        &found);
    return found;
}

}  // namespace

StaticShared::StaticShared() {
    if (address_sanitizer || thread_sanitizer) return;
    const ThreadMemory found = find_thread_memory();
    memory_ = found.begin;
    held_.assign(found.begin, found.begin + found.bytes);
}

StaticShared::~StaticShared() {
    if (memory_) std::memcpy(memory_, held_.data(), held_.size());
}

void StaticShared::poison() {
    if (memory_) std::memset(memory_, 0xFF, held_.size());
}

}  // namespace escalier::cuda_emulation
