// Runs the points of a sweep, each by a command of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sweep/expand.h"
#include "sweep/folder.h"

namespace escalier::sweep {

struct RunRequest {
    std::vector<const Point*> points;  // that can be, in the order to run them
    int jobs = 1;                      // so many at a time
    // The command that starts escalier with these arguments on the point's ranks.
    std::function<std::vector<std::string>(const Point&, const std::vector<std::string>& arguments)> command;
    std::function<void(const std::string& line)> say;
};

struct RunSummary {
    int done = 0, failed = 0, unfinished = 0;
    bool stopped = false;  // by a signal

    // 0: all are done; 75: those that are not can go on, by the same call; 1: some failed
    int exit_code() const;
};

// A finished point is passed over; an interrupted one goes on from its checkpoint; what another job has left
// in a point's folder is moved away. A point that fails is noted with its last words, and the others go on.
// SIGINT, SIGTERM and SIGUSR1 end the sweep: the runs under way are asked to save and leave (SIGUSR1), and
// ended at a second signal.
RunSummary run_points(const Sweep& sweep, const SweepFolder& folder, const RunRequest& request);

}  // namespace escalier::sweep
