#include "cuda_emulation/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "cuda_emulation/sanitizers.h"

// Saves the registers that a call preserves, exchanges the stack pointers, and returns on the other stack.
extern "C" void escalier_switch_stack(void** save, void* load);
asm(R"(
.text
.p2align 4
.globl escalier_switch_stack
.type escalier_switch_stack,@function
escalier_switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp,(%rdi)
    movq %rsi,%rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size escalier_switch_stack,.-escalier_switch_stack
)");

namespace escalier::cuda_emulation {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(ESCALIER_EMULATION_TSAN)
constexpr std::size_t stack_size = 256 * 1024;
#else
constexpr std::size_t stack_size = 64 * 1024;
#endif
constexpr std::size_t guard_bytes = 4096;

unsigned char* map_stack() {
    void* memory = mmap(nullptr, stack_size + guard_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, guard_bytes, PROT_NONE) != 0) {
        std::perror("emulated CUDA: mmap of a thread's stack");
        std::abort();
    }
    return static_cast<unsigned char*>(memory);
}

// What the next switch needs to know of both sides.
void (*first_entry)() = nullptr;
Fiber* leaving = nullptr;
Fiber* entering = nullptr;

}  // namespace

// Code that a new fiber starts in.
void Fiber::start() {
    entering->arrive();
    first_entry();
    std::abort();
}

// On the stack that a switch went to.
void Fiber::arrive() {
#if defined(__SANITIZE_ADDRESS__)
    const void* bottom = nullptr;
    __sanitizer_finish_switch_fiber(address_sanitizer_, &bottom, &leaving->stack_bytes_);
    leaving->stack_ = const_cast<unsigned char*>(static_cast<const unsigned char*>(bottom));
#endif
}

Fiber::Fiber(void (*entry)())
    : mapping_(map_stack()), stack_(mapping_ + guard_bytes), stack_bytes_(stack_size) {
    first_entry = entry;
    // Tops are staggered, or all stacks would land in the same few cache sets.
    static unsigned count = 0;
    const std::size_t top = stack_size - 256 - (count++ % 32) * 192;
    auto** pointer = reinterpret_cast<void**>(stack_ + top / 16 * 16);
    *--pointer = nullptr;  // start() finds the stack as after a call
    *--pointer = reinterpret_cast<void*>(&Fiber::start);
    for (int saved = 0; saved < 6; ++saved) *--pointer = nullptr;
    stack_pointer_ = pointer;
#if defined(ESCALIER_EMULATION_TSAN)
    thread_sanitizer_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if defined(ESCALIER_EMULATION_TSAN)
    if (thread_sanitizer_ && mapping_) __tsan_destroy_fiber(thread_sanitizer_);
#endif
    if (mapping_) munmap(mapping_, stack_size + guard_bytes);
}

void Fiber::resume(Fiber& from) {
    leaving = &from;
    entering = this;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&from.address_sanitizer_, stack_, stack_bytes_);
#endif
#if defined(ESCALIER_EMULATION_TSAN)
    if (!from.mapping_) from.thread_sanitizer_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(thread_sanitizer_, 1);
#endif
    escalier_switch_stack(&from.stack_pointer_, stack_pointer_);
    from.arrive();
}

}  // namespace escalier::cuda_emulation
