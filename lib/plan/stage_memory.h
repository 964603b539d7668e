// Predicted bytes of a stage on one tensor rank: close, and cheap enough for a search. To the byte, memory is
// what the constructors take on measuring arenas.
#pragma once

#include <cstdint>
#include <string>

#include "config/job_spec.h"
#include "schedule/memory.h"

namespace escalier::plan {

// Of one micro-batch on one stage, by how long they live (schedule/memory.h).
struct StageActivations {
    double forward = 0, linear_inputs = 0, output_gradients = 0;
    double sum() const { return forward + linear_inputs + output_gradients; }
};

// What activations depend on besides a stage's own place.
struct ActivationShape {
    config::ModelConfig model;
    std::int64_t micro_batch = 1, seq_len = 1, tp = 1;
    std::string dtype = "fp32";
    std::int64_t recompute_every = 1;
};

StageActivations stage_activations(const ActivationShape& shape, std::int64_t layers, bool first, bool last,
                                   config::Recompute recompute);

// The same of every stage of a job. spec: resolved.
schedule::ActivationBytes activation_bytes(const config::JobSpec& spec);

// Of a weight's element: weight, gradient, the optimizer's moments, the copy that products read.
double state_bytes_per_element(const config::OptimizerConfig& optimizer, const std::string& dtype);

// Most activations alive on pipeline rank `rank`, from F to W, in units of one stage's; of the published
// kinds.
double live_activations(const std::string& kind, int pp, int chunks, std::int64_t micro_batches, int rank);

}  // namespace escalier::plan
