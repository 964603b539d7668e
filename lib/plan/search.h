// Looks through every grid, schedule, micro-batch, recompute and layout for the fastest that fits in memory.
// At most most_balanced_layers (plan/balance.h) layers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/job_spec.h"
#include "plan/candidates.h"
#include "plan/hardware.h"
#include "plan/prediction.h"
#include "schedule/action.h"

namespace escalier::plan {

struct SearchProblem {
    config::JobSpec
        spec;  // model, batch and type resolved; grid, schedule, micro-batch, layout are looked for
    std::int64_t ranks = 1;
    Hardware hardware;
    double memory_limit = 0;  // bytes of one device
    // Bytes that the fullest rank takes of a resolved job; null: estimated (stage_memory.h).
    std::function<double(const config::JobSpec& spec, const schedule::Schedule& schedule)> memory = nullptr;
    int best = 10;          // how many to find, each of another grid or schedule
    int most_tried = 2000;  // most simulations
};

struct Found {
    Candidate candidate;
    config::JobSpec spec;  // resolved
    Prediction prediction;
    std::shared_ptr<const schedule::Schedule> schedule = nullptr;
    double bytes = 0;  // of the fullest rank
};

struct SearchResult {
    std::vector<Found> best;  // fastest first
    std::size_t candidates = 0;
    std::size_t too_large =
        0;  // of them, even with full recompute: by an estimate from below, or by `memory`
    std::size_t simulated = 0;  // with each recompute that was tried
    bool complete = true;       // false: most_tried ended it before the bounds did
};

SearchResult search(const SearchProblem& problem);

// What the fullest rank of a resolved job takes, about.
double estimated_bytes(const config::JobSpec& spec, const schedule::Schedule& schedule);

// One candidate, whether it fits or not.
Found try_candidate(const SearchProblem& problem, const Candidate& candidate);

}  // namespace escalier::plan
