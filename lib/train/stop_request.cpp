#include "train/stop_request.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <ctime>

#include "core/clock.h"

namespace escalier::train {

namespace {

constexpr int time_is_up = 1;  // signals have their own numbers, which are larger
static_assert(SIGUSR1 > time_is_up && SIGTERM > time_is_up);

sigset_t stop_signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGTERM);
    return set;
}

}  // namespace

StopRequest::StopRequest() : start_(now_seconds()) {
    const sigset_t set = stop_signals();
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

int StopRequest::poll(double max_minutes) {
    const sigset_t set = stop_signals();
    const timespec at_once{};
    for (int signal; (signal = sigtimedwait(&set, nullptr, &at_once)) > 0;) code_ = std::max(code_, signal);
    if (max_minutes > 0 && now_seconds() - start_ >= 60 * max_minutes) code_ = std::max(code_, time_is_up);
    return code_;
}

std::string StopRequest::name(int code) {
    return code == SIGUSR1 ? "SIGUSR1" : code == SIGTERM ? "SIGTERM" : "run.max_minutes";
}

}  // namespace escalier::train
