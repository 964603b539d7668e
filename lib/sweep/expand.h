// From a job spec with a sweep section to its points.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/load.h"
#include "config/schedule_rules.h"
#include "sweep/point.h"

namespace escalier::sweep {

struct SweepQuestion {
    config::JobFile file;
    std::vector<std::string> overrides;  // the arguments of --set
    std::optional<std::int64_t> ranks;   // of every point
    config::Environment environment;
    config::ScheduleRules schedules;
};

struct Sweep {
    std::string job;                     // path of the job file
    std::string folder;                  // run.dir/NAME-sweep, the folder of its runs
    std::vector<std::string> overrides;  // the arguments of --set
    std::vector<config::SweepAxis> axes;
    std::vector<Point> points;  // in the order of the axes; those of an exclusion are not among them

    std::int64_t count() const;  // of points that can be
};

// Every combination of the axes' values, the last axis fastest. A value comes over the job file, --set over
// both: an axis whose key --set (or `ranks`) gives has that value alone. A point has the ranks of the axis
// `ranks`, else `ranks`, else what its grid needs, with one replica where parallel.dp is auto. What the rules
// of the job spec refuse is a point's reason; faults of the file itself are a ConfigError, as is a job
// without a sweep.
Sweep expand(const SweepQuestion& question);

// The arguments of --set that make the point of the job file, the place of its run folder included.
std::vector<std::string> overrides_of(const Sweep& sweep, const Point& point);

}  // namespace escalier::sweep
