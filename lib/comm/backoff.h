// How a thread waits for other processes: it gives the core away at once, because ranks may share cores, and
// sleeps once the wait has become long, for a sixteenth of it.
#pragma once

#include <sched.h>
#include <time.h>

#include <algorithm>

namespace escalier::comm {

enum class Polled { waiting, moved, done };

class Backoff {
 public:
    void pause() {
        if (pauses_ < yields) {
            ++pauses_;
            sched_yield();
            return;
        }
        const long nap_ns = std::clamp(slept_ns_ / 16, shortest_nap_ns, longest_nap_ns);
        slept_ns_ += nap_ns;
        const timespec nap{0, nap_ns};
        nanosleep(&nap, nullptr);
    }

 private:
    static constexpr int yields = 500;  // a few hundred microseconds
    static constexpr long shortest_nap_ns = 20 * 1000, longest_nap_ns = 200 * 1000;
    int pauses_ = 0;
    long slept_ns_ = 0;
};

}  // namespace escalier::comm
