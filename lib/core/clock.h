// The one clock of measurements: seconds of a steady clock. On one host all processes share it.
#pragma once

#include <chrono>

namespace escalier {

inline double now_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace escalier
