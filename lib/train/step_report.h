// Collects what every rank measured in a step.
#pragma once

#include <optional>
#include <vector>

#include "comm/mpi_env.h"
#include "pipeline/bubble.h"
#include "pipeline/end_exchange.h"
#include "train/assembly.h"
#include "train/metrics.h"

namespace escalier::train {

class StepReporter {
 public:
    StepReporter(Assembly& assembly, comm::MpiEnv& env, comm::Communicator& job);

    // Collective over the job after each step: loss, norm, the slowest rank's seconds, and every rank's split
    // of its step. On rank 0 also the times of the stages in its replica.
    StepReport collect(const StepResult& result);

    // What the pipeline ranks of this replica told one another about the last step.
    const pipeline::EndExchange& pipeline_ranks() const { return ends_; }
    // Seconds of the last step's reduction that this rank spent waiting for the last pipeline rank: bubble.
    double tail() const { return tail_; }

    // Of rank 0's replica over the last steps, without the first one, which is slow; nothing on other ranks
    // and before step 2.
    std::optional<pipeline::Bubble> bubble() const;

 private:
    Assembly& assembly_;
    comm::Communicator& job_;
    pipeline::EndExchange ends_;
    std::vector<double> all_;  // [ranks][parts of a RankSplit]
    double tail_ = 0;
    std::optional<pipeline::BubbleRecorder> recorder_;  // rank 0 only
    bool first_ = true;
};

// Adds each rank's parts to `sums` (empty: starts it).
void add_to_sums(std::vector<RankSplit>& sums, const std::vector<RankSplit>& ranks);
std::vector<RankSplit> mean_of(const std::vector<RankSplit>& sums, std::int64_t steps);

}  // namespace escalier::train
