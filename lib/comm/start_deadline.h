// A limit for MPI's own start, which waits without end where a rank of the launch stops before its watchdog
// is there.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace escalier::comm {

// Ends the process with exit code 1 and a message unless it is destroyed within `seconds`.
class StartDeadline {
 public:
    explicit StartDeadline(double seconds);
    ~StartDeadline();
    StartDeadline(const StartDeadline&) = delete;
    StartDeadline& operator=(const StartDeadline&) = delete;

 private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool started_ = false;  // guarded by mutex_
    std::thread thread_;
};

}  // namespace escalier::comm
