// Which stage holds how many transformer layers. Pure functions of the spec, so that every rank finds the
// same.
#pragma once

#include <cstdint>
#include <vector>

#include "config/job_spec.h"

namespace escalier::config {

// Work of one token, forward, in FLOPs (or any unit of time).
struct ModelCost {
    double embedding = 0.0;
    double layer = 0.0;
    double attention = 0.0;  // part of `layer` that recompute: attention does again
    double head = 0.0;
};

// Matrix products at 2 FLOPs per multiply-add, head over the padded vocabulary, attention by its causal half.
// The embedding has no products: its bytes are counted at the rate a CPU computes while it moves one byte.
ModelCost forward_cost(const ModelConfig& model, std::int64_t seq_len, std::int64_t tp);

// Time of a stage that holds `layers` layers, forward and backward (3 forwards) and what it recomputes.
double stage_cost(const ModelCost& cost, std::int64_t layers, bool first, bool last, Recompute recompute);

// As even as counts can be; the first stages take what is left over.
std::vector<std::int64_t> even_layout(std::int64_t num_layers, std::int64_t stages);

// The layout whose slowest stage is fastest, each stage with at least one layer. Among equals the one with
// the least sum of squared costs, then the one with more layers on later stages. recompute: one per stage.
std::vector<std::int64_t> balanced_layout(const ModelCost& cost, std::int64_t num_layers,
                                          const std::vector<Recompute>& recompute);

}  // namespace escalier::config
