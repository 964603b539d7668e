// Names of points, for folders and people: "schedule-1f1b_pp-2_micro_batch-4".
#pragma once

#include <string>
#include <vector>

#include "config/job_spec.h"

namespace escalier::sweep {

// The last part of every key (its whole path where two keys end alike) and the value. A name depends on the
// point's settings alone and differs between points of the same axes; what a folder's name cannot hold, or
// only at length, is a hash.
std::string point_name(const std::vector<config::SweepSetting>& settings);

}  // namespace escalier::sweep
