// One job of a sweep.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/job_spec.h"

namespace escalier::sweep {

struct Point {
    std::int64_t index = -1;                     // among the points that can be; -1: this one cannot
    std::string name;                            // of its run folder
    std::vector<config::SweepSetting> settings;  // a value for every axis, in the order of the axes
    std::int64_t ranks = 1;
    std::optional<config::JobSpec> spec;  // resolved; nothing: the point cannot be
    std::string reason;                   // why not

    bool possible() const { return spec.has_value(); }
};

}  // namespace escalier::sweep
