// What each stage of a job takes, made from the times of the model's parts.
#pragma once

#include <vector>

#include "config/job_spec.h"
#include "config/profile.h"
#include "schedule/simulate.h"

namespace escalier::plan {

struct StageTimes {
    schedule::Durations durations;  // seconds of one micro-batch; B takes I + W; transfer: one message
    // Of F and of I, what sums over the tensor group take; per stage.
    std::vector<double> forward_exchange, backward_exchange;
};

// spec: resolved. split_backward: whether the schedule has I and W apart.
StageTimes stage_times(const config::JobSpec& spec, const config::ModelTimes& times, bool split_backward);

// Time of one stage, forward and backward, of one micro-batch.
double stage_seconds(const config::ModelTimes& times, std::int64_t layers, bool first, bool last,
                     config::Recompute recompute, bool split_backward);

// Elements of one tensor rank's weights, vocabulary padding included.
struct PartElements {
    double embedding = 0;  // tokens and positions
    double table = 0;      // tokens alone: what a tied head shares
    double layer = 0;
    double head = 0;  // last norm, and the output matrix
};
PartElements part_elements(const config::ModelConfig& model, std::int64_t tp);

// Of one stage. shares_table: the embeddings are tied, and a rank holds both ends of the model; their table
// then counts with the embedding alone.
double stage_elements(const PartElements& parts, std::int64_t layers, bool first, bool last,
                      bool shares_table);

}  // namespace escalier::plan
