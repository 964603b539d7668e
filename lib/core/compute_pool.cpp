#include "core/compute_pool.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/check.h"

namespace escalier {

// A run is announced by raising `generation`; workers spin for a short while before they sleep, because loops
// follow one another within microseconds inside a step.
struct ComputePool::State {
    int threads;
    std::vector<std::thread> workers;
    std::mutex mutex;
    std::condition_variable wake;
    std::atomic<std::uint64_t> generation{0};
    std::atomic<bool> stop{false};

    std::atomic<std::int64_t> next{0};
    std::atomic<int> busy{0};
    std::int64_t tasks = 0;
    Function function = nullptr;
    void* body = nullptr;

    void take_tasks(int thread) {
        for (;;) {
            const std::int64_t task = next.fetch_add(1, std::memory_order_relaxed);
            if (task >= tasks) return;
            function(body, task, thread);
        }
    }

    void wait_for_generation(std::uint64_t seen) {
        constexpr int spins = 2000;
        for (int i = 0; i < spins; ++i) {
            if (generation.load(std::memory_order_acquire) != seen || stop.load()) return;
            __builtin_ia32_pause();
        }
        std::unique_lock<std::mutex> lock(mutex);
        wake.wait(lock, [&] { return generation.load(std::memory_order_acquire) != seen || stop.load(); });
    }

    void work(int thread) {
        std::uint64_t seen = 0;
        for (;;) {
            wait_for_generation(seen);
            if (stop.load()) return;
            seen = generation.load(std::memory_order_acquire);
            take_tasks(thread);
            busy.fetch_sub(1, std::memory_order_release);
        }
    }
};

ComputePool::ComputePool(int threads) : state_(std::make_unique<State>()) {
    ESCALIER_CHECK(threads >= 1, "a compute pool needs at least one thread");
    state_->threads = threads;
    for (int thread = 1; thread < threads; ++thread) {
        state_->workers.emplace_back([this, thread] { state_->work(thread); });
        pthread_setname_np(state_->workers.back().native_handle(),
                           ("compute" + std::to_string(thread)).c_str());
    }
}

ComputePool::~ComputePool() {
    {
        std::lock_guard<std::mutex> lock(state_->mutex);
        state_->stop = true;
    }
    state_->wake.notify_all();
    for (std::thread& worker : state_->workers) worker.join();
}

int ComputePool::threads() const {
    return state_->threads;
}

void ComputePool::run(std::int64_t tasks, Function function, void* body) {
    State& state = *state_;
    if (state.threads == 1 || tasks <= 1) {
        for (std::int64_t task = 0; task < tasks; ++task) function(body, task, 0);
        return;
    }
    state.tasks = tasks;
    state.function = function;
    state.body = body;
    state.next.store(0, std::memory_order_relaxed);
    state.busy.store(state.threads - 1, std::memory_order_relaxed);
    {
        std::lock_guard<std::mutex> lock(state.mutex);
        state.generation.fetch_add(1, std::memory_order_release);
    }
    state.wake.notify_all();
    state.take_tasks(0);
    while (state.busy.load(std::memory_order_acquire) > 0) sched_yield();
}

}  // namespace escalier
