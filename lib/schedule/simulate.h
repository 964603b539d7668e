// When every action of a schedule starts and ends, given durations.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/action.h"
#include "schedule/program.h"

namespace escalier::schedule {

// In any one unit of time. B takes input_gradient + weight_gradient.
struct Durations {
    std::vector<double> forward;  // per stage
    std::vector<double> input_gradient;
    std::vector<double> weight_gradient;
    double transfer = 0;  // per message; messages of one channel move one after the other
    // An overlapped pair takes the sum of its two actions' durations times this, from 0.5 to 1: what its
    // communication hides.
    double pair_factor = 1;

    double of(ActionKind kind, int stage) const {
        const auto at = static_cast<std::size_t>(stage);
        if (kind == ActionKind::F) return forward[at];
        if (kind == ActionKind::I) return input_gradient[at];
        if (kind == ActionKind::W) return weight_gradient[at];
        return input_gradient[at] + weight_gradient[at];
    }

    static Durations uniform(int stages, double forward, double input_gradient, double weight_gradient,
                             double transfer);
};

struct TimedAction {  // both actions of an overlapped pair have the times of the pair
    Action action;
    double start;
    double end;
};

struct Timeline {
    std::vector<std::vector<TimedAction>> ranks;
    double makespan = 0;
    std::vector<double> busy;  // per rank, time inside actions
    std::vector<double> idle;  // per rank: (makespan - busy) / makespan
    double idle_share = 0;     // mean of idle
    // Zero-bubble paper's definition: longest time from a rank's first start to its last end, and
    // (span - mean busy) / span. It leaves the stagger of the ranks out.
    double span = 0;
    double span_idle_share = 0;
    std::int64_t messages = 0;
};

// With unlimited buffers.
Timeline simulate(const Schedule& schedule, const Durations& durations);
// With the buffers and posting times of the programs (of lower, one per rank).
Timeline simulate(const Schedule& schedule, const std::vector<Program>& programs, const Durations& durations);
// The same with recorded durations: of every action, per rank in order; both actions of an overlapped pair
// carry the whole pair's.
Timeline replay(const Schedule& schedule, const std::vector<Program>& programs,
                const std::vector<std::vector<double>>& durations, double transfer);

}  // namespace escalier::schedule
