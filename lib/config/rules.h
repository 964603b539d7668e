// The rules over several keys of a job spec.
#pragma once

#include <cstdint>

#include "config/load.h"
#include "config/problems.h"
#include "config/schedule_rules.h"

namespace escalier::config {

// Fills every auto of `job` in for a job of `ranks` processes, and adds what the rules refuse to `problems`:
// a rule over a doubted key is left out.
void apply_rules(Job& job, std::int64_t ranks, const ScheduleRules& schedules, Problems& problems);

}  // namespace escalier::config
