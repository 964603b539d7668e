// One thread block at a time, one fiber per CUDA thread that has to wait, scheduled by seed.
//
// A thread runs until it waits: at a block barrier, or in a warp operation until all lanes of its mask are
// there (the last one computes for all). What a GPU leaves undefined ends the program with 70 and a report:
// threads of a block at different barriers, or gone; masks without the caller, with lanes that have exited;
// lanes of a mask in different operations; a deadlock.
//
// One host thread at a time runs kernels (the caller sees to that).
#pragma once

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <vector>

namespace escalier::cuda_emulation {

class Fiber;

enum class WarpOperation : std::uint8_t { sync, shuffle, ballot, reduce, mma, ldmatrix };

// What a lane hands to a warp operation and gets back.
struct LaneSlot {
    alignas(16) unsigned char in[64];
    alignas(16) unsigned char out[16];
    std::uint32_t argument;
};

struct PendingCopy {  // of cp.async
    void* to;
    const void* from;  // null: zeros
    std::uint32_t group;
};

struct Thread {
    enum class State : std::uint8_t { ready, at_barrier, in_warp, exited };

    uint3 index{};
    std::uint32_t linear = 0;
    State state = State::ready;
    WarpOperation operation{};
    std::uint32_t mask = 0;
    LaneSlot slot;
    std::vector<PendingCopy> copies;
    std::uint32_t copy_group = 0;
    int barrier_value = 0;
    int barrier_generation = 0;
    Fiber* fiber = nullptr;  // null before it starts
    char ordered[2];         // addresses that stand for orderings, for the thread sanitizer

    std::uint32_t lane() const { return linear % 32; }
};

struct BlockShape {
    dim3 grid, block;
    uint3 index;
};

// The running thread and block; threadIdx and its like read them.
extern Thread* self;
extern BlockShape running;
void* dynamic_shared();

// A barrier of the whole block; gives the sum of `value` over its threads. `line` tells barriers apart.
int block_barrier(int value, int line);
// compute(first thread of the warp, mask) fills the `out` of all lanes in `mask`.
using WarpCompute = void (*)(Thread* warp, std::uint32_t mask);
void warp_collective(WarpOperation operation, std::uint32_t mask, WarpCompute compute);

// Runs `body` for every thread of every block. Dynamic shared memory holds NaN at the start of each block.
void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& body,
              std::source_location where);

// Reports what the running thread did, who waits where, and ends the program with 70.
[[noreturn]] void fault(const char* what);

}  // namespace escalier::cuda_emulation
