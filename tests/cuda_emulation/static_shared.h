// `__shared__` variables that a kernel declares by name. In a plain build they are thread_local: so they lie
// in one piece of memory that is known at run time, and every block can start with NaN in them. The
// sanitizers know the end of static memory but not of thread_local memory: there they are static, and keep
// what the last block left.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ESCALIER_STATIC_SHARED static
#else
#define ESCALIER_STATIC_SHARED thread_local
#endif

#include <cstddef>
#include <vector>

namespace escalier::cuda_emulation {

// While it lives, thread_local variables of this program or library hold rubbish; then what they held before.
class StaticShared {
 public:
    StaticShared();
    ~StaticShared();
    StaticShared(const StaticShared&) = delete;
    StaticShared& operator=(const StaticShared&) = delete;
    void poison();

 private:
    unsigned char* memory_ = nullptr;
    std::vector<unsigned char> held_;
};

}  // namespace escalier::cuda_emulation
