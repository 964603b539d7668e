#include "comm/start_deadline.h"

#include <pthread.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "core/error.h"

namespace escalier::comm {

StartDeadline::StartDeadline(double seconds) {
    thread_ = std::thread([this, seconds] {
        std::unique_lock lock(mutex_);
        if (changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return started_; })) return;
        std::fprintf(
            stderr,
            "escalier: MPI has not started within %.0f s: a process of this launch has stopped, or a "
            "host of it cannot be reached. Look for a stopped process, or try fewer hosts.\n",
            seconds);
        std::fflush(stderr);
        std::_Exit(static_cast<int>(ExitCode::failed));
    });
    pthread_setname_np(thread_.native_handle(), "start");
}

StartDeadline::~StartDeadline() {
    {
        const std::lock_guard lock(mutex_);
        started_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

}  // namespace escalier::comm
