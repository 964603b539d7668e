// Which stage holds how many layers and what it recomputes: exact dynamic programming.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "config/job_spec.h"

namespace escalier::plan {

// The search grows with the square of the layers; callers refuse, or leave out, what has more.
inline constexpr std::int64_t most_balanced_layers = 1024;

struct BalanceProblem {
    std::int64_t num_layers = 1;
    int stages = 1;
    // What each stage may recompute, cheapest in time first; one entry leaves no choice. One list per stage.
    std::vector<std::vector<config::Recompute>> choices;
    // Time of a stage with so many layers; rises with them.
    std::function<double(int stage, std::int64_t layers, config::Recompute)> seconds;
    // Whether a stage may be so, by its memory for one. Null: everything may.
    std::function<bool(int stage, std::int64_t layers, config::Recompute)> fits = nullptr;
};

struct Balance {
    std::vector<std::int64_t> layers;          // per stage; empty: nothing fits
    std::vector<config::Recompute> recompute;  // per stage
    double slowest = 0;                        // seconds of the slowest stage
};

// The slowest stage is as fast as can be, each stage with at least one layer; among equals the sum of squared
// times is least, then later stages hold more layers. Each stage takes the fastest recompute that fits.
Balance balance(const BalanceProblem& problem);

}  // namespace escalier::plan
