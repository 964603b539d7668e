#include "comm/deadline.h"

#include <pthread.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace escalier::comm {

Deadline::Deadline(double seconds, std::string what, std::string advice, int exit_code) {
    thread_ = std::thread([this, seconds, exit_code, what = std::move(what), advice = std::move(advice)] {
        std::unique_lock lock(mutex_);
        if (changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return over_; })) return;
        std::fprintf(stderr, "escalier: %s within %.0f s: %s\n", what.c_str(), seconds, advice.c_str());
        std::fflush(stderr);
        std::_Exit(exit_code);
    });
    pthread_setname_np(thread_.native_handle(), "deadline");
}

Deadline::~Deadline() {
    {
        const std::lock_guard lock(mutex_);
        over_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

}  // namespace escalier::comm
