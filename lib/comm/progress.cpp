#include "comm/progress.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>

#include "comm/mpi_check.h"
#include "core/clock.h"

namespace escalier::comm {

Progress::Progress() {
    check_mpi(MPI_Comm_dup(MPI_COMM_SELF, &comm_), "MPI_Comm_dup");
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "progress");
}

Progress::~Progress() {
    stop_.store(true);
    started();
    thread_.join();
    MPI_Comm_free(&comm_);
}

void Progress::started() {
    if (outstanding_.fetch_add(1, std::memory_order_release) == 0) outstanding_.notify_one();
}

void Progress::add(Pollable& pollable) {
    const std::lock_guard<std::mutex> lock(mutex_);
    pollables_.push_back(&pollable);
}

void Progress::remove(Pollable& pollable) {
    const std::lock_guard<std::mutex> lock(mutex_);
    pollables_.erase(std::remove(pollables_.begin(), pollables_.end(), &pollable), pollables_.end());
}

// True when something moved. A probe that took long carried data.
bool Progress::poll_once() {
    constexpr double carried_data_s = 20e-6;
    const double begin = now_seconds();
    int flag = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, 0, comm_, &flag, MPI_STATUS_IGNORE);
    bool moved = now_seconds() - begin > carried_data_s;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Pollable* pollable : pollables_) moved = pollable->poll() || moved;
    return moved;
}

// Polls are close while things move, so that a sum's steps follow one another, and rarer after that: each
// takes several microseconds from a core that computes, and who waits polls for himself.
void Progress::run() {
    constexpr timespec close_by{0, 100 * 1000}, rarer{0, 500 * 1000};
    constexpr int close_polls = 10;
    int idle = 0;
    while (!stop_.load()) {
        if (outstanding_.load() == 0) idle = 0;
        outstanding_.wait(0, std::memory_order_acquire);
        idle = poll_once() ? 0 : idle + 1;
        if (idle) nanosleep(idle <= close_polls ? &close_by : &rarer, nullptr);
    }
}

}  // namespace escalier::comm
