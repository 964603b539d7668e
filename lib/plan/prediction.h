// The predicted step of a job: its schedule walked with the times of its stages, and what comes after.
#pragma once

#include <vector>

#include "config/job_spec.h"
#include "config/profile.h"
#include "schedule/action.h"
#include "schedule/program.h"
#include "schedule/simulate.h"

namespace escalier::plan {

// Seconds. Parts of a step on one pipeline rank: busy, bubble and reduction sum to `Prediction::pipeline`
// plus `Prediction::reduction`.
struct RankPrediction {
    double forward = 0, input_gradient = 0,
           weight_gradient = 0;  // of one micro-batch, all stages of the rank
    double busy = 0;             // inside actions
    double exchange = 0;         // of it, in sums over the tensor group
    double bubble = 0;           // waiting for producers, as if messages took no time
    double messages = 0;         // what messages add
    double reduction = 0;        // until gradients are summed on all ranks
    double optimizer = 0;
    double elements = 0;  // parameters that the rank updates
};

struct Prediction {
    double data = 0;       // before the pipeline
    double pipeline = 0;   // from the first action's start to the last one's end
    double reduction = 0;  // from there until gradients are complete: replicas, copies, tied embedding
    double norm = 0;       // with what every step takes besides
    double optimizer = 0;  // slowest rank
    double step = 0;       // the sum
    // Shares of the step, mean over pipeline ranks. Exposed: sums over the tensor group, messages, reduction.
    double bubble = 0;
    double exposed = 0;
    double tokens_per_s = 0;
    double model_flops = 0;  // of the step (config/model_facts.h)
    double mfu = 0;          // 0: no peak
    std::vector<RankPrediction> ranks;
    schedule::Timeline timeline;  // of the pipeline
};

// spec: resolved. programs: of lower(), one per pipeline rank. peak: FLOP/s of one device, 0: unknown.
Prediction predict(const config::JobSpec& spec, const schedule::Schedule& schedule,
                   const std::vector<schedule::Program>& programs, const config::ModelTimes& times,
                   double peak);
// With unlimited buffers, which takes no lowering: a little optimistic.
Prediction predict(const config::JobSpec& spec, const schedule::Schedule& schedule,
                   const config::ModelTimes& times, double peak);

}  // namespace escalier::plan
