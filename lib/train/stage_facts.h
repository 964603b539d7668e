// What people ask about a stage before it runs.
#pragma once

#include <cstdint>
#include <string>

#include "config/job_spec.h"
#include "schedule/action.h"

namespace escalier::train {

// Parameters of a stage over all its tensor ranks. A tied head counts on its own stage too where that is a
// copy, on another pipeline rank than the embedding.
std::int64_t stage_parameters(const config::JobSpec& spec, const schedule::Schedule& schedule, int stage);

// Most micro-batches whose activations a stage keeps at once, from F to W (or B).
int live_micro_batches(const schedule::Schedule& schedule, int stage, int copy);

// "none", "attention", "full", "full, every 2"
std::string recompute_text(config::Recompute recompute, std::int64_t every);

}  // namespace escalier::train
