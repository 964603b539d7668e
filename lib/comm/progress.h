// Messages move only while somebody is inside MPI (Open MPI has no progress of its own), so a thread of comm
// calls in at short intervals while anything is under way, and sleeps for good when nothing is.
#pragma once

#include <mpi.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace escalier::comm {

// Something that advances by being polled, from any thread.
class Pollable {
 public:
    virtual ~Pollable() = default;
    virtual bool poll() = 0;  // true: it moved, so poll again soon. Errors are kept for whoever waits.
};

class Progress {
 public:
    Progress();  // MPI is initialised with MPI_THREAD_MULTIPLE
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    // Count what is under way; the thread runs while the count is above zero.
    void started();
    void finished() { outstanding_.fetch_sub(1, std::memory_order_relaxed); }

    void add(Pollable& pollable);
    void remove(Pollable& pollable);  // after this it is polled no more
    // Polls everything once, unless the thread is at it: by whoever waits for a device, which the thread,
    // that naps between its polls, would keep idle.
    void poll();

 private:
    void run();
    bool poll_once();
    bool poll_all();  // with mutex_ held

    MPI_Comm comm_ = MPI_COMM_NULL;  // of this rank alone: probing it makes MPI progress
    std::atomic<int> outstanding_{0};
    std::atomic<bool> stop_{false};
    std::mutex mutex_;  // guards pollables_
    std::vector<Pollable*> pollables_;
    std::thread thread_;
};

}  // namespace escalier::comm
