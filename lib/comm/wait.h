// The one way to wait for other ranks: polls, gives the core away between polls, and tells the watchdog.
#pragma once

#include "comm/backoff.h"
#include "comm/watchdog.h"

namespace escalier::comm {

inline Polled polled(bool done) {
    return done ? Polled::done : Polled::waiting;
}
inline Polled polled(Polled result) {
    return result;
}

// poll: returns Polled, or true when done.
template <class Poll>
void wait_until(Watchdog& watchdog, const char* label, const RankSet& awaited, Poll&& poll) {
    const WaitScope scope(watchdog, label, awaited);  // also of waits without delay: what a rank last did
    Backoff backoff;
    for (;;) {
        const Polled found = polled(poll());
        if (found == Polled::done) return;
        if (found == Polled::moved) {
            backoff = Backoff();
            watchdog.moved();
        } else {
            backoff.pause();
        }
    }
}

}  // namespace escalier::comm
