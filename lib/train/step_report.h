// Collects what every rank measured in a step.
#pragma once

#include <vector>

#include "comm/mpi_env.h"
#include "pipeline/end_exchange.h"
#include "train/assembly.h"
#include "train/metrics.h"

namespace escalier::train {

class StepReporter {
 public:
    StepReporter(Assembly& assembly, comm::MpiEnv& env, comm::Communicator& job);

    // Collective over the job after each step: loss, norm, the slowest rank's seconds, and every rank's split
    // of its step.
    StepReport collect(const StepResult& result);

 private:
    Assembly& assembly_;
    comm::Communicator& job_;
    pipeline::EndExchange ends_;
    std::vector<double> all_;  // [ranks][parts of a RankSplit]
};

// Adds each rank's parts to `sums` (empty: starts it).
void add_to_sums(std::vector<RankSplit>& sums, const std::vector<RankSplit>& ranks);
std::vector<RankSplit> mean_of(const std::vector<RankSplit>& sums, std::int64_t steps);

}  // namespace escalier::train
