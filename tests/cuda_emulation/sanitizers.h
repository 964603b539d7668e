// What the sanitizers must be told of fibers and barriers; nothing in a plain build.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

// The thread sanitizer watches kernels alone: the emulator itself is compiled without it, and calls it
// through these, which are defined where ESCALIER_EMULATION_TSAN is.
#if defined(ESCALIER_EMULATION_TSAN)
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace escalier::cuda_emulation {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool address_sanitizer = true;
#else
inline constexpr bool address_sanitizer = false;
#endif

#if defined(ESCALIER_EMULATION_TSAN)
inline constexpr bool thread_sanitizer = true;
inline void happens_before(void* address) {
    __tsan_release(address);
}
inline void happens_after(void* address) {
    __tsan_acquire(address);
}
#else
inline constexpr bool thread_sanitizer = false;
inline void happens_before(void*) {}
inline void happens_after(void*) {}
#endif

}  // namespace escalier::cuda_emulation
