// Collects what every rank measured in a step.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "train/assembly.h"
#include "train/metrics.h"

namespace escalier::train {

class StepReporter {
 public:
    StepReporter(const Assembly& assembly, comm::Communicator& job);

    // Collective over the job after each step: loss, norm, the slowest rank's seconds, and every rank's split of its step.
    // Allocates on rank 0 alone.
    StepReport collect(const StepResult& result);

 private:
    const Assembly& assembly_;
    comm::Communicator& job_;
    pipeline::StepSplitter splitter_;
    std::vector<double> all_;  // [ranks][fields]
};

// Adds each rank's parts to `sums` (empty: starts it).
void add_to_sums(std::vector<RankSplit>& sums, const std::vector<RankSplit>& ranks);

}  // namespace escalier::train
