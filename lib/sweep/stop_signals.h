// Signals that ask a sweep to stop, and the ends of its children.
#pragma once

#include <signal.h>

#include <chrono>

namespace escalier::sweep {

// Holds SIGINT, SIGTERM, SIGUSR1 and SIGCHLD back for as long as it lives; to be made before any thread.
class StopSignals {
 public:
    StopSignals();
    ~StopSignals();
    StopSignals(const StopSignals&) = delete;
    StopSignals& operator=(const StopSignals&) = delete;

    // Returns at once after one of them, or when the time is over. How often a stop has been asked for so
    // far.
    int wait(std::chrono::milliseconds time);

 private:
    sigset_t signals_, before_;
    struct sigaction child_before_ {};  // of SIGCHLD, which a parent may have had ignored
    int asked_ = 0;
};

}  // namespace escalier::sweep
