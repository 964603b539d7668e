// What --cost and --memory of `escalier schedule` say.
#pragma once

#include <string>
#include <vector>

#include "schedule/simulate.h"

namespace escalier::apps {

inline constexpr const char* unit_costs = "F=1,I=1,W=1,comm=0";

// Durations before the number of stages is known: one value for all stages or one per stage.
struct Costs {
    std::string text;
    std::vector<double> forward = {1}, input_gradient = {1}, weight_gradient = {1};
    double transfer = 0;
    double pair_factor = 1;

    bool per_stage() const;
    // `share`: what one stage takes of the durations, for kinds that cut a rank's share into chunks.
    // ConfigError when as many values are given as no such schedule has stages.
    schedule::Durations durations(int stages, double share = 1) const;
};

// "F=1:2:1:1,I=1,W=1,comm=0.1,pair=0.9": what is left out is as in unit_costs, pair 1. ConfigError.
Costs parse_costs(const std::string& text);

// "4" or "4:4:3:3": the most activations alive per rank, in units of one stage's. ConfigError.
std::vector<double> parse_memory(const std::string& text, int pp);

}  // namespace escalier::apps
