#include "comm/progress.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>

#include "comm/mpi_check.h"

namespace escalier::comm {

namespace {

double thread_seconds() {
    timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

}  // namespace

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

// True when something moved. A probe that used much of the processor carried data; its wall time says
// nothing, for it gives the core away when it finds nothing.
bool Progress::poll_once() {
    constexpr double carried_data_s = 10e-6;
    const double begin = thread_seconds();
    int flag = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, 0, comm_, &flag, MPI_STATUS_IGNORE);
    bool moved = thread_seconds() - begin > carried_data_s;
    const std::lock_guard<std::mutex> lock(mutex_);
    return poll_all() || moved;
}

bool Progress::poll_all() {
    bool moved = false;
    for (Pollable* pollable : pollables_) moved = pollable->poll() || moved;
    return moved;
}

void Progress::poll() {
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (lock.owns_lock()) poll_all();
}

// Polls are close while things move, so that the steps of a sum follow one another, and rare after that:
// waking up takes about 17 us of a core that computes (on a virtual machine), and who waits polls for
// himself.
void Progress::run() {
    constexpr timespec close_by{0, 200 * 1000}, rarer{0, 4 * 1000 * 1000};
    constexpr int close_polls = 4;
    int idle = 0;
    while (!stop_.load()) {
        if (outstanding_.load() == 0) idle = 0;
        outstanding_.wait(0, std::memory_order_acquire);
        idle = poll_once() ? 0 : idle + 1;
        if (idle) nanosleep(idle <= close_polls ? &close_by : &rarer, nullptr);
    }
}

}  // namespace escalier::comm
