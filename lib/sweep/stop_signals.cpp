#include "sweep/stop_signals.h"

#include <pthread.h>

#include <ctime>

namespace escalier::sweep {

StopSignals::StopSignals() {
    sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD}) sigaddset(&signals_, signal);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
    struct sigaction as_usual {};
    as_usual.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &as_usual, &child_before_);
}

StopSignals::~StopSignals() {
    sigaction(SIGCHLD, &child_before_, nullptr);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int StopSignals::wait(std::chrono::milliseconds time) {
    const timespec limit{time.count() / 1000, 1'000'000 * (time.count() % 1000)};
    const int signal = sigtimedwait(&signals_, nullptr, &limit);
    if (signal > 0 && signal != SIGCHLD) ++asked_;
    return asked_;
}

}  // namespace escalier::sweep
