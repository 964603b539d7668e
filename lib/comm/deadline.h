// A limit for MPI's own start and end, which wait without end for a rank that has stopped while no watchdog
// is there: not yet, or no more.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace escalier::comm {

class Deadline {
 public:
    // Ends the process with `exit_code` and a message unless it is destroyed within `seconds`. what: "MPI has
    // not started"; advice: what to look for.
    Deadline(double seconds, std::string what, std::string advice, int exit_code);
    ~Deadline();
    Deadline(const Deadline&) = delete;
    Deadline& operator=(const Deadline&) = delete;

 private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool over_ = false;  // guarded by mutex_
    std::thread thread_;
};

}  // namespace escalier::comm
