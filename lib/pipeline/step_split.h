// Where the pipeline part of a step went on one rank: compute, communication that compute did not hide, and
// bubble. A wait is bubble up to the end of its producer's compute and exposed communication after it.
#pragma once

#include <vector>

#include "pipeline/executor.h"
#include "schedule/action.h"

namespace escalier::pipeline {

// When the producers of messages were done: the ends of all F, and B or I, of one replica, in seconds of one
// clock.
class ActionEnds {
 public:
    ActionEnds(int stages, int micro_batches);

    void set(const schedule::Action& action, double end);  // W is left out: it produces no message
    // Of the action that produces the message that `action` waits for: the stage before or, for gradients,
    // after.
    double producer_of(const schedule::Action& action, bool gradient) const;

 private:
    std::size_t at(int stage, int micro_batch) const;
    int stages_;
    int micro_batches_;
    std::vector<double> forward_;  // [stage][micro-batch]
    std::vector<double> backward_;
};

// Seconds. compute + tensor_collectives + exposed + bubble + rest = end - start of the step times.
struct StepSplit {
    double compute = 0;
    double tensor_collectives = 0;
    double exposed = 0;  // waits for messages that were under way, or for buffers
    double bubble = 0;   // waits for producers that were still computing
    double rest = 0;     // starting messages and reductions, polls
    double tail = 0;  // from this rank's end to the last pipeline rank's end: bubble outside the step times
};

// last_end: the end of the last of the replica's pipeline ranks, on the same clock as `times`.
StepSplit split_step(const StepTimes& times, const ActionEnds& ends, double last_end);

}  // namespace escalier::pipeline
