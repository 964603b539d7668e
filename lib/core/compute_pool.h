// The one pool of compute threads of a rank. A loop is cut into tasks by its caller, by shape and never by
// the number of threads, so that results do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace escalier {

class ComputePool {
 public:
    explicit ComputePool(int threads);  // >= 1; the caller of parallel_for is one of them
    ~ComputePool();
    ComputePool(const ComputePool&) = delete;
    ComputePool& operator=(const ComputePool&) = delete;

    int threads() const;

    // body(task, thread) for task in [0, tasks), each once; returns when all are done. Allocates nothing.
    // thread is in [0, threads()): it indexes per-thread scratch and must not influence a result.
    // The body must not throw and must not call parallel_for.
    template <class Body>
    void parallel_for(std::int64_t tasks, Body&& body) {
        using Plain = std::remove_reference_t<Body>;
        run(
            tasks,
            [](void* raw, std::int64_t task, int thread) { (*static_cast<Plain*>(raw))(task, thread); },
            const_cast<std::remove_const_t<Plain>*>(&body));
    }

 private:
    using Function = void (*)(void* body, std::int64_t task, int thread);
    void run(std::int64_t tasks, Function function, void* body);

    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace escalier
