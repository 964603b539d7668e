// The one clock of measurements: seconds of a steady clock. On one host all processes share it. And the time
// of day, for what people read.
#pragma once

#include <chrono>

namespace escalier {

inline double now_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Since 1970, UTC.
inline double unix_seconds() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace escalier
