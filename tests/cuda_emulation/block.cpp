#include "cuda_emulation/block.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "cuda_emulation/fiber.h"
#include "cuda_emulation/instructions.h"
#include "cuda_emulation/random.h"
#include "cuda_emulation/sanitizers.h"
#include "cuda_emulation/static_shared.h"

namespace escalier::cuda_emulation {

Thread* self = nullptr;
BlockShape running;

namespace {

std::uint64_t chosen_seed = [] {
    const char* text = std::getenv("ESCALIER_CUDA_SEED");
    return text ? std::strtoull(text, nullptr, 10) : 1ull;
}();

// Threads that can run, a ring.
class Ready {
 public:
    void reset(std::size_t capacity, bool shuffled, std::uint64_t block_seed) {
        ring_.resize(capacity);
        head_ = count_ = 0;
        shuffled_ = shuffled;
        random_ = Random(block_seed);
    }
    void push(Thread* thread) { ring_[(head_ + count_++) % ring_.size()] = thread; }
    Thread* pop() {
        if (count_ == 0) return nullptr;
        if (shuffled_) std::swap(ring_[(head_ + random_.below(count_)) % ring_.size()], ring_[head_]);
        Thread* first = ring_[head_];
        head_ = (head_ + 1) % ring_.size();
        --count_;
        return first;
    }
    bool shuffled() const { return shuffled_; }

 private:
    std::vector<Thread*> ring_;
    std::size_t head_ = 0;
    std::uint32_t count_ = 0;
    bool shuffled_ = false;
    Random random_;
};

// Memory of exactly the size that the launch asked for, so that the address sanitizer knows its end.
class DynamicShared {
 public:
    void reset(std::size_t bytes) {
        void* memory = nullptr;
        if (posix_memalign(&memory, 1024, std::max<std::size_t>(bytes, 1)) != 0) std::abort();
        memory_.reset(static_cast<unsigned char*>(memory));
        bytes_ = bytes;
    }
    void poison() { std::memset(memory_.get(), 0xFF, bytes_); }
    void* data() const { return memory_.get(); }

 private:
    struct Free {
        void operator()(unsigned char* memory) const { std::free(memory); }
    };
    std::unique_ptr<unsigned char, Free> memory_;
    std::size_t bytes_ = 0;
};

// Sets of lanes, as masks.
struct Warp {
    std::uint32_t present = 0, exited = 0, waiting = 0;
};

struct Scheduler {
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    std::uint32_t live = 0;  // threads that have not exited
    std::uint32_t at_barrier = 0;
    int barrier_sum = 0;
    int barrier_line = 0;
    Ready ready;
    DynamicShared shared;
    Fiber home;  // the stack that run_grid was called on
    std::vector<std::unique_ptr<Fiber>> fibers;
    std::vector<Fiber*> idle;
    const std::function<void()>* body = nullptr;
    std::source_location where;
    std::uint64_t launches = 0;
    char block_begins = 0, block_ends = 0;  // orderings, for the thread sanitizer
    char barrier_order[2];
};
Scheduler scheduler;

void fiber_main();

Fiber* idle_fiber() {
    if (scheduler.idle.empty()) {
        scheduler.fibers.push_back(std::make_unique<Fiber>(&fiber_main));
        return scheduler.fibers.back().get();
    }
    Fiber* fiber = scheduler.idle.back();
    scheduler.idle.pop_back();
    return fiber;
}

// Goes on with `next`, which is not the running thread, and leaves the fiber `from`.
void go_on_with(Thread* next, Fiber& from) {
    if (!next->fiber) next->fiber = idle_fiber();
    self = next;
    next->fiber->resume(from);
}

// The running thread waits, or lets others go first; returns when it has its turn again.
void give_way() {
    Thread* me = self;
    Thread* next = scheduler.ready.pop();
    if (!next)
        fault("no thread can go on: a barrier or a warp operation waits for threads that wait elsewhere");
    if (next != me) go_on_with(next, *me->fiber);
}

void exit_thread() {
    complete_copies(0);
    self->state = Thread::State::exited;
    scheduler.warps[self->linear / 32].exited |= 1u << self->lane();
    --scheduler.live;
    if (scheduler.at_barrier > 0) fault("this thread exits while others of its block wait at a barrier");
    happens_before(&scheduler.block_ends);
}

// A fiber runs one thread after the other; a thread that has to wait keeps its fiber meanwhile.
void fiber_main() {
    for (;;) {
        Fiber& me = *self->fiber;
        happens_after(&scheduler.block_begins);
        (*scheduler.body)();
        exit_thread();
        Thread* next = scheduler.ready.pop();
        if (!next && scheduler.live > 0)
            fault("no thread can go on: a warp operation waits for lanes that wait elsewhere");
        if (next && !next->fiber) {
            next->fiber = &me;
            self = next;
            continue;
        }
        scheduler.idle.push_back(&me);
        if (next)
            go_on_with(next, me);
        else
            scheduler.home.resume(me);
    }
}

// The thread sanitizer wants one stack for each thread of the block, made here, or it would take the threads
// for ordered.
void give_fibers() {
    Scheduler& s = scheduler;
    s.idle.clear();
    s.idle.reserve(s.threads.size());
    while (s.fibers.size() < s.threads.size()) s.fibers.push_back(std::make_unique<Fiber>(&fiber_main));
    for (std::size_t i = 0; i < s.threads.size(); ++i) s.threads[i].fiber = s.fibers[i].get();
}

void run_block(std::uint64_t block_seed) {
    Scheduler& s = scheduler;
    s.ready.reset(s.threads.size(), seed() != 0, block_seed);
    s.live = static_cast<std::uint32_t>(s.threads.size());
    s.at_barrier = 0;
    for (Warp& warp : s.warps) warp.exited = warp.waiting = 0;
    for (Thread& thread : s.threads) {
        thread.state = Thread::State::ready;
        thread.copies.clear();
        thread.copy_group = 0;
        thread.barrier_generation = 0;
        thread.fiber = nullptr;
        s.ready.push(&thread);
    }
    s.shared.poison();
    if (thread_sanitizer) give_fibers();
    happens_before(&s.block_begins);
    go_on_with(s.ready.pop(), s.home);
    happens_after(&s.block_ends);
    self = nullptr;
}

const char* describe(WarpOperation operation) {
    switch (operation) {
        case WarpOperation::sync:
            return "__syncwarp";
        case WarpOperation::shuffle:
            return "a shuffle";
        case WarpOperation::ballot:
            return "a vote";
        case WarpOperation::reduce:
            return "a reduction";
        case WarpOperation::mma:
            return "mma.sync";
        case WarpOperation::ldmatrix:
            return "ldmatrix";
    }
    return "?";
}

}  // namespace

std::uint64_t seed() {
    return chosen_seed;
}
void set_seed(std::uint64_t value) {
    chosen_seed = value;
}

void* dynamic_shared() {
    return scheduler.shared.data();
}

void fault(const char* what) {
    const Scheduler& s = scheduler;
    std::fprintf(stderr, "emulated CUDA: %s\n  kernel launched at %s:%u", what, s.where.file_name(),
                 s.where.line());
    if (self)
        std::fprintf(stderr, ", block (%u, %u, %u), thread (%u, %u, %u)", running.index.x, running.index.y,
                     running.index.z, self->index.x, self->index.y, self->index.z);
    std::fputc('\n', stderr);
    int listed = 0;
    for (const Thread& thread : s.threads) {
        if (!self || listed == 8) break;
        if (thread.state == Thread::State::at_barrier)
            std::fprintf(stderr, "  thread %u waits at the barrier of line %d\n", thread.linear,
                         s.barrier_line);
        else if (thread.state == Thread::State::in_warp)
            std::fprintf(stderr, "  thread %u (lane %u) waits in %s with mask %08x\n", thread.linear,
                         thread.lane(), describe(thread.operation), thread.mask);
        else
            continue;
        ++listed;
    }
    std::fflush(stderr);
    std::_Exit(70);
}

int block_barrier(int value, int line) {
    Scheduler& s = scheduler;
    if (s.live < s.threads.size())
        fault("a barrier that threads of the block will never reach: they have exited");
    if (s.at_barrier == 0) {
        s.barrier_sum = 0;
        s.barrier_line = line;
    } else if (s.barrier_line != line) {
        self->state = Thread::State::ready;
        fault(("threads of one block meet at different barriers: this one is at line " + std::to_string(line))
                  .c_str());
    }
    // Two addresses in turn, or a thread that is already at the next barrier would hide a race.
    char* order = &s.barrier_order[self->barrier_generation++ % 2];
    happens_before(order);
    s.barrier_sum += value;
    self->state = Thread::State::at_barrier;
    if (++s.at_barrier == s.threads.size()) {
        s.at_barrier = 0;
        for (Thread& thread : s.threads) {
            thread.state = Thread::State::ready;
            thread.barrier_value = s.barrier_sum;
            if (&thread != self || s.ready.shuffled()) s.ready.push(&thread);
        }
        if (s.ready.shuffled()) give_way();
    } else {
        give_way();
    }
    happens_after(order);
    return self->barrier_value;
}

namespace {

void require_same(const Thread& a, const Thread& b) {
    if (a.mask != b.mask) fault("lanes that name each other wait with different masks");
    if (a.operation != b.operation) fault("lanes of one mask meet in different warp operations");
}

template <class F>
void for_each_lane(std::uint32_t mask, F&& f) {
    for (; mask; mask &= mask - 1) f(static_cast<std::uint32_t>(__builtin_ctz(mask)));
}

// All lanes of the mask are there; the running one is the last.
void complete_collective(Thread* first, std::uint32_t mask, WarpCompute compute, bool ordering) {
    Scheduler& s = scheduler;
    Thread* me = self;
    for_each_lane(mask, [&](std::uint32_t lane) { require_same(*me, first[lane]); });
    if (ordering && thread_sanitizer)
        for_each_lane(mask, [&](std::uint32_t lane) { happens_after(&first[lane].ordered[0]); });
    compute(first, mask);
    if (ordering && thread_sanitizer)
        for_each_lane(mask, [&](std::uint32_t lane) { happens_before(&first[lane].ordered[1]); });
    s.warps[me->linear / 32].waiting &= ~mask;
    for_each_lane(mask, [&](std::uint32_t lane) {
        first[lane].state = Thread::State::ready;
        if (&first[lane] != me || s.ready.shuffled()) s.ready.push(&first[lane]);
    });
}

}  // namespace

void warp_collective(WarpOperation operation, std::uint32_t mask, WarpCompute compute) {
    Scheduler& s = scheduler;
    Thread* me = self;
    Thread* first = &s.threads[me->linear / 32 * 32];
    Warp& warp = s.warps[me->linear / 32];
    if (!(mask >> me->lane() & 1)) fault("the mask of a warp operation lacks the calling lane");
    if (mask & ~warp.present) fault("a mask names a lane that the block does not have");
    if (mask & warp.exited) fault("a mask names a lane that has exited");
    me->state = Thread::State::in_warp;
    me->operation = operation;
    me->mask = mask;
    if (const std::uint32_t there = warp.waiting & mask) require_same(*me, first[__builtin_ctz(there)]);
    warp.waiting |= 1u << me->lane();
    // Only __syncwarp orders memory; shuffles and votes exchange values alone.
    const bool ordering = operation == WarpOperation::sync;
    if (ordering) happens_before(&me->ordered[0]);
    const bool complete = (warp.waiting & mask) == mask;
    if (complete) complete_collective(first, mask, compute, ordering);
    if (!complete || s.ready.shuffled()) give_way();
    if (ordering) happens_after(&me->ordered[1]);
}

void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& body,
              std::source_location where) {
    Scheduler& s = scheduler;
    s.body = &body;
    s.where = where;
    running.grid = grid;
    running.block = block;
    s.threads.resize(static_cast<std::size_t>(block.x) * block.y * block.z);
    std::uint32_t linear = 0;
    for (unsigned z = 0; z < block.z; ++z)
        for (unsigned y = 0; y < block.y; ++y)
            for (unsigned x = 0; x < block.x; ++x, ++linear) {
                s.threads[linear].index = {x, y, z};
                s.threads[linear].linear = linear;
            }
    s.warps.assign((s.threads.size() + 31) / 32, Warp());
    for (const Thread& thread : s.threads) s.warps[thread.linear / 32].present |= 1u << thread.lane();
    s.shared.reset(shared_bytes);
    const std::uint64_t launch = ++s.launches;
    const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
    std::vector<std::uint64_t> order(blocks);
    for (std::uint64_t i = 0; i < blocks; ++i) order[i] = i;
    Random random(seed() * 0x2545F4914F6CDD1Dull + launch);
    if (seed() != 0)
        for (std::uint64_t i = blocks; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
    StaticShared named_shared;
    for (const std::uint64_t i : order) {
        running.index = {static_cast<unsigned>(i % grid.x), static_cast<unsigned>(i / grid.x % grid.y),
                         static_cast<unsigned>(i / (std::uint64_t{grid.x} * grid.y))};
        named_shared.poison();
        run_block(random());
    }
    s.body = nullptr;
}

}  // namespace escalier::cuda_emulation
