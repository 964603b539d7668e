// The candidates of a search: what can be run at all, with a bound from below for its time and memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/job_spec.h"
#include "plan/hardware.h"
#include "plan/part_times.h"

namespace escalier::plan {

enum class Layout : std::uint8_t {
    even,
    balanced,     // by predicted times
    lighter_ends  // as many layers everywhere, one less on the first and the last stage
};
enum class RecomputeChoice : std::uint8_t { none, attention, full, per_stage };

struct Candidate {
    GridSizes grid;
    std::string schedule;
    int chunks = 1;  // stages per pipeline rank
    std::int64_t micro_batch = 1;
    std::int64_t micro_batches = 1;
    Layout layout = Layout::balanced;
    RecomputeChoice recompute = RecomputeChoice::none;
    std::vector<std::int64_t> layers;  // per stage
    double bound = 0;                  // seconds of a step, from below
    double bytes = 0;                  // of the fullest rank, estimated

    int stages() const;
};

// Whether schedules of this kind have I and W apart.
bool splits_backward(const std::string& kind);

// All that the model and the batch can be cut into, whatever memory they take; no entry twice. spec: model,
// global_batch and dtype resolved.
std::vector<Candidate> enumerate(const config::JobSpec& spec, std::int64_t ranks);

// Fills bound and bytes in. times: of the candidate's grid and micro-batch.
void price(Candidate& candidate, const config::JobSpec& spec, const config::ModelTimes& times);

// Estimated bytes of stage `stage` on its rank, with all micro-batches that the schedule keeps alive; shares
// of a rank that holds several stages.
double stage_bytes(const Candidate& candidate, const config::JobSpec& spec, int stage, std::int64_t layers,
                   config::Recompute recompute);

// The pipeline rank that holds a stage (of the first copy).
int rank_of_stage(const Candidate& candidate, int stage);

}  // namespace escalier::plan
