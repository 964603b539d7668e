// Whether this process was asked to stop: SIGUSR1 or SIGTERM, or a time limit. Neither ends it; the run looks
// at each step's end, agrees with the other ranks, saves and leaves with exit code 75.
#pragma once

#include <string>

namespace escalier::train {

class StopRequest {
 public:
    // Holds the signals back from now on, in this thread and all that it starts later: to be made before MPI
    // and its threads. Counts the time limit from here.
    StopRequest();

    // 0: go on; otherwise a code that all ranks can compare, the larger the stronger. It stays once it is
    // not 0: a second signal changes nothing. max_minutes: run.max_minutes, 0 for none.
    int poll(double max_minutes);
    // "SIGUSR1", "SIGTERM", "run.max_minutes"
    static std::string name(int code);

 private:
    double start_;
    int code_ = 0;
};

}  // namespace escalier::train
