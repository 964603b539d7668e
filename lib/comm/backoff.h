// How a thread waits for other processes: it gives the core away at once, because ranks may share cores, and
// sleeps once the wait has become long.
#pragma once

#include <sched.h>
#include <time.h>

namespace escalier::comm {

class Backoff {
 public:
    void pause() {
        if (pauses_ < yields) {
            ++pauses_;
            sched_yield();
            return;
        }
        const timespec nap{0, nap_ns};
        nanosleep(&nap, nullptr);
    }

 private:
    static constexpr int yields = 500;         // a few hundred microseconds
    static constexpr long nap_ns = 20 * 1000;  // exact to the thread's timer slack
    int pauses_ = 0;
};

}  // namespace escalier::comm
