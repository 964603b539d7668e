// Shortens one schedule by changes to single actions.
#pragma once

#include <cstdint>

#include "schedule/generators/list_scheduler.h"

namespace escalier::schedule::generators {

// Changes keys of `guide` as long as its schedule gets shorter, in at most `passes` list schedules; returns
// the makespan. Deterministic.
double polish(const PlacedModel& model, Guide& guide, std::int64_t passes);

}  // namespace escalier::schedule::generators
