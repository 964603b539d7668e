// The one way to wait for other ranks: polls, gives the core away between polls, and tells the watchdog.
#pragma once

#include "comm/backoff.h"
#include "comm/watchdog.h"

namespace escalier::comm {

template <class Poll>
void wait_until(Watchdog& watchdog, const char* label, int peer, Poll&& done) {
    const WaitScope scope(watchdog, label, peer);  // also of waits without delay: what a rank last did
    if (done()) return;
    Backoff backoff;
    while (!done()) backoff.pause();
}

}  // namespace escalier::comm
