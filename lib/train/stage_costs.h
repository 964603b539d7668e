// Predicted work of every stage, from which the start-up page predicts the bubble.
#pragma once

#include "config/job_spec.h"
#include "schedule/simulate.h"

namespace escalier::train {

// FLOPs per micro-batch row as durations: of each stage's F, I and W. The loss head does all its work in F
// (loss_head.h); what is recomputed belongs to I. With run.clock sleep the set times, in seconds: layers
// alone count, and a full recompute is one more forward pass. spec: resolved.
schedule::Durations predicted_durations(const config::JobSpec& spec);

}  // namespace escalier::train
