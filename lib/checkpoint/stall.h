// How long a thread that writes has got nowhere, as another one sees that looks now and then.
#pragma once

#include <algorithm>
#include <cstdint>

namespace escalier::checkpoint {

class Stall {
 public:
    // A thread begins.
    void begin(std::uint64_t moves, double now) {
        moves_ = moves;
        looked_ = now;
        seconds_ = 0;
    }
    // Seconds without a move, at `now`. A time without looks counts for `most` seconds at most: the whole
    // process may have been suspended in it.
    double look(std::uint64_t moves, double now, double most) {
        seconds_ = moves == moves_ ? seconds_ + std::min(now - looked_, most) : 0;
        moves_ = moves;
        looked_ = now;
        return seconds_;
    }

 private:
    std::uint64_t moves_ = 0;
    double looked_ = 0;
    double seconds_ = 0;
};

}  // namespace escalier::checkpoint
