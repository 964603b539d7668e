// How many slots and boundary buffers a schedule needs, from its lists of actions alone, for searches over
// many schedules: what lower() and share_slots() find, but for rings that lower() makes longer than its rule
// so that a sender may run further ahead, and for what several chunks of a pipeline of one rank hand over.
#pragma once

#include <vector>

#include "schedule/action.h"
#include "schedule/program.h"

namespace escalier::schedule {

// Of pipeline rank `rank`, by chunk as in its program. groups: of equal entries share slots
// (share_slots.h); each of them then counts those of the whole group.
std::vector<StageBuffers> estimate_slots(const Schedule& schedule, int rank, const std::vector<int>& groups);

}  // namespace escalier::schedule
