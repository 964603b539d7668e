// One optimizer step, and one validation batch, on this rank.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "comm/communicator.h"
#include "optim/completion.h"
#include "optim/grad_norm.h"
#include "optim/grad_reducer.h"
#include "optim/optimizer.h"
#include "pipeline/executor.h"
#include "train/batch.h"
#include "train/rank_model.h"
#include "train/rank_seat.h"
#include "train/update_guard.h"

namespace escalier::train {

struct StepResult {
    double loss = 0;                    // mean over the valid targets of the global batch, before the update
    double grad_norm = 0;               // before clipping
    Verdict verdict = Verdict::update;  // anything else: the weights were left as they were
    // Seconds on this rank; they sum to `seconds`, the whole step. On a device with a queue of its own the
    // host looks once a step, when the optimizer has not run yet: its share is that of the step before.
    double data_wait = 0, pipeline = 0, reduction = 0, optimizer = 0;
    double seconds = 0;
};

// When the parts of a step began and ended on this rank, in seconds of core/clock.h.
struct StepPhases {
    double start = 0;
    double loaded = 0;                          // batch read; the pipeline begins
    double computed = 0;                        // the reduction begins
    double reduced = 0;                         // gradients summed, norm known
    double summing = 0, summed = 0;             // losses, over the job
    double optimizer_start = 0, optimizer = 0;  // both 0: no update
};

class TrainStep {
 public:
    // In measuring arenas it only counts and must not run.
    TrainStep(const config::JobSpec& spec, const RankSeat& seat, RankModel& model, device::Arenas& arenas);

    // step_number counts from 1. Collective over the job; allocates nothing from the second call on. The
    // verdict is the same on every rank; what follows from one that is no update the caller decides.
    StepResult run(const data::SampleReader& reader, std::int64_t consumed, std::int64_t step_number);
    // Sum of the token losses of the batch that follows `consumed`; valid targets go to `targets`.
    double validate(const data::SampleReader& reader, std::int64_t consumed, std::int64_t& targets);

    const optim::Optimizer& optimizer() const { return *optimizer_; }
    const UpdateGuard& guard() const { return guard_; }
    std::int64_t updates() const { return updates_; }  // optimizer updates so far
    // Goes on where another run stood; its weights and moments are there already.
    void restore(std::int64_t updates, const GuardState& guard);

    // Elements of this rank's weights that are NaN or infinite.
    double count_nonfinite_weights();

    double learning_rate(std::int64_t step_number) const;
    const pipeline::StepTimes& pipeline_times() { return executor_.times(); }

    // Takes memory for what a traced step records beside the times that every step has.
    void reserve_trace();
    // From the next step on. A traced step waits for its optimizer, on devices with a queue too.
    void trace(bool on);
    // Of the last step, where it was traced.
    const StepPhases& phases() const { return phases_; }
    const std::vector<optim::BucketTime>& bucket_times() const { return reducer_.times(); }

 private:
    // The token losses of all replicas, added in the order of micro-batches, then pipeline ranks (two copies
    // of the model end on two of them), then dp ranks; the same on every rank.
    double sum_losses(const char* label);
    // The host's only wait for the device.
    void wait_for_device(const char* label);
    double seconds_between(int first_mark, int second_mark);

    const config::JobSpec spec_;
    comm::Activity& activity_;
    std::function<void(const char* label)> wait_;  // for the device
    comm::Communicator& job_;
    device::Device& device_;
    const parallel::Groups& groups_;
    RankModel& model_;
    BatchLoader loader_;
    optim::GradientReducer reducer_;
    optim::GradientCompletion completion_;
    optim::GradientNorm norm_;
    std::unique_ptr<optim::Optimizer> optimizer_;
    UpdateGuard guard_;
    std::int64_t updates_ = 0;
    pipeline::DeviceClock clock_;
    pipeline::Executor executor_;
    std::unique_ptr<pipeline::Executor> forward_executor_;
    TensorView losses_;                              // f64 [dp, pp], on the host
    device::Mirror nonfinite_;                       // f64 [1]
    int optimizer_begin_ = -1, optimizer_end_ = -1;  // marks of the last update; -1: none
    double optimizer_seconds_ = 0;                   // of the last update that is over
    StepPhases phases_;
    bool traced_ = false;
};

}  // namespace escalier::train
