// One optimizer step, and one validation batch, on this rank.
#pragma once

#include <cstdint>
#include <memory>

#include "comm/communicator.h"
#include "optim/completion.h"
#include "optim/grad_norm.h"
#include "optim/grad_reducer.h"
#include "optim/optimizer.h"
#include "pipeline/executor.h"
#include "train/batch.h"
#include "train/rank_model.h"

namespace escalier::train {

struct StepResult {
    double loss = 0;       // mean over the valid targets of the global batch, before the update
    double grad_norm = 0;  // before clipping
    // Seconds on this rank; they sum to `seconds`, the whole step.
    double data_wait = 0, pipeline = 0, reduction = 0, optimizer = 0;
    double seconds = 0;
};

class TrainStep {
 public:
    // job: all ranks of the grid. In measuring arenas it only counts and must not run.
    TrainStep(const config::JobSpec& spec, comm::Communicator& job, const parallel::Groups& groups,
              RankModel& model, const schedule::Program& program, const schedule::Program* forward,
              pipeline::Channels& channels, device::Arenas& arenas);

    // step_number counts from 1. Collective over the job; allocates nothing from the second call on. A
    // non-finite loss or norm is the same on every rank; the weights are then left as they were, and the
    // caller decides.
    StepResult run(const data::SampleReader& reader, std::int64_t consumed, std::int64_t step_number);
    // Sum of the token losses of the batch that follows `consumed`; valid targets go to `targets`.
    double validate(const data::SampleReader& reader, std::int64_t consumed, std::int64_t& targets);

    double learning_rate(std::int64_t step_number) const;
    const pipeline::StepTimes& pipeline_times() const { return executor_.times(); }

 private:
    // The token losses of all replicas, added in the order of micro-batches, then pipeline ranks (two copies
    // of the model end on two of them), then dp ranks; the same on every rank.
    double sum_losses(const char* label);

    const config::JobSpec spec_;
    comm::Communicator& job_;
    const parallel::Groups& groups_;
    RankModel& model_;
    BatchLoader loader_;
    optim::GradientReducer reducer_;
    optim::GradientCompletion completion_;
    optim::GradientNorm norm_;
    std::unique_ptr<optim::Optimizer> optimizer_;
    pipeline::RealClock clock_;
    pipeline::Executor executor_;
    std::unique_ptr<pipeline::Executor> forward_executor_;
    TensorView losses_;  // f64 [dp, pp]
};

}  // namespace escalier::train
