// Fibers: stacks of their own, switched in a dozen instructions (ucontext costs a system call each time).
#pragma once

#include <cstddef>

namespace escalier::cuda_emulation {

class Fiber {
 public:
    Fiber() = default;  // the stack that the caller already runs on
    // entry() never returns. The thread sanitizer takes it for a thread, which follows what was done before.
    explicit Fiber(void (*entry)());
    ~Fiber();
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    // Leaves `from`, which is the running one, and goes on where this one left off.
    void resume(Fiber& from);

 private:
    [[noreturn]] static void start();
    void arrive();

    void* stack_pointer_ = nullptr;
    unsigned char* mapping_ = nullptr;  // guard page and stack; null: a stack of somebody else's
    unsigned char* stack_ = nullptr;
    std::size_t stack_bytes_ = 0;
    void* address_sanitizer_ = nullptr;
    void* thread_sanitizer_ = nullptr;
};

}  // namespace escalier::cuda_emulation
