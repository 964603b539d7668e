// The stand-in for a GPU's queues. Work is kept per stream and run only when somebody waits or asks for it,
// in an order drawn by seed from those that streams and events allow: so work that nothing orders shows.
//
//   a wait (synchronise)   runs as little as it can, or anything in any order, until what it waits for is
//   done a query                runs nothing or a few pieces of work, then answers queueing work          now
//   and then runs a few pieces, since a GPU may as well be fast seed 0                 always as little as it
//   can
//
// Everything happens under one lock, on the thread that calls.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cuda_emulation/random.h"

namespace escalier::cuda_emulation {

enum class Progress { waiting, some, done };  // waiting: for another process
// Called until it says done; it must then be ready to run anew, for graphs are launched many times.
using Work = std::function<Progress()>;

struct Completion {
    bool done = false;
    CUstream_st* stream = nullptr;
    std::chrono::steady_clock::time_point time;
};

struct Operation {
    Work work;
    std::shared_ptr<Completion> awaited;  // of another stream; may be null
    std::shared_ptr<Completion> completion;
};

struct Capture;

}  // namespace escalier::cuda_emulation

struct CUstream_st {
    int device = 0;
    bool blocking = true;  // ordered with the device's default stream
    bool destroyed = false;
    bool busy = false;  // its first operation runs right now
    std::deque<escalier::cuda_emulation::Operation> operations;
    std::shared_ptr<escalier::cuda_emulation::Capture> capture;
    std::vector<int> capture_tail;  // nodes that the next captured operation follows
};

struct CUevent_st {
    int device = 0;
    bool timing = true;
    std::shared_ptr<escalier::cuda_emulation::Completion> recorded;  // null: never
    std::weak_ptr<escalier::cuda_emulation::Capture> capture;        // recorded in it
    std::vector<int> captured_nodes;
};

namespace escalier::cuda_emulation {

using Lock = std::unique_lock<std::mutex>;

class Queues {
 public:
    static Queues& get();

    Lock lock() { return Lock(mutex_); }

    CUstream_st* create_stream(int device, bool blocking);
    void destroy_stream(CUstream_st* stream);  // what is queued still runs
    // The stream of a handle: null is the default stream of `device`. Null for a handle that is none.
    CUstream_st* find(cudaStream_t handle, int device);

    // Queues work behind what the stream holds, or adds it to the graph that the stream is captured into.
    void submit(CUstream_st& stream, Work work);
    void wait_for(CUstream_st& stream, std::shared_ptr<Completion> completion);
    std::shared_ptr<Completion> record(CUstream_st& stream);

    // Runs work until done() holds. `target` is the stream that it takes, null: all of them.
    void finish(Lock& lock, CUstream_st* target, const std::function<bool()>& done);
    // Runs nothing, or some.
    void poke(Lock& lock, CUstream_st* target);
    bool idle(int device) const;
    void finish_device(Lock& lock, int device);

    // For work that must not hold the lock: host functions.
    void without_lock(const std::function<void()>& call);

    // A thread that runs what is queued while the process makes no call, as a GPU would; for communicators,
    // whose peers wait. Counted: each start() needs one stop().
    void start_background();
    void stop_background();
    // The start of every call.
    void enter(Lock& lock) {
        current_lock_ = &lock;
        last_call_ = std::chrono::steady_clock::now();
    }

 private:
    Queues() = default;
    void push(CUstream_st& stream, Operation operation);
    void follow_default_stream(CUstream_st& stream);
    Progress run_first(CUstream_st& stream);
    bool run_any();
    CUstream_st* needed(CUstream_st* target) const;
    CUstream_st& default_stream(int device);
    Random& random();
    void background();

    std::mutex mutex_;
    std::vector<std::unique_ptr<CUstream_st>> streams_;
    std::vector<CUstream_st*> default_streams_;
    Random random_;
    std::uint64_t seeded_with_ = ~0ull;
    Lock* current_lock_ = nullptr;
    std::chrono::steady_clock::time_point last_call_;
    std::thread background_;
    int background_users_ = 0;
};

// ---- what the parts of the stand-in share

// Runs f(lock), which returns a cudaError_t, and keeps its error for cudaGetLastError.
cudaError_t keep_error(cudaError_t error);
template <class F>
cudaError_t call(F&& f) {
    Queues& queues = Queues::get();
    Lock lock = queues.lock();
    queues.enter(lock);
    return keep_error(f(queues, lock));
}

int current_device();  // of this thread

// Captures. A call that may wait is not allowed while some stream is captured (cudaStreamCaptureMode); the
// capture is void then.
bool forbidden_while_capturing();
void capture_work(CUstream_st& stream, Work work);

}  // namespace escalier::cuda_emulation
