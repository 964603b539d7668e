// The rules over schedule, stages and layout.
#pragma once

#include "config/load.h"
#include "config/problems.h"
#include "config/schedule_rules.h"

namespace escalier::config {

// After grid, model and batch: fills chunks, layout and recompute in for every stage.
void apply_pipeline_rules(Job& job, const ScheduleRules& schedules, Problems& problems);

}  // namespace escalier::config
