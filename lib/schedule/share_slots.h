// Slots of activations that the stages of a rank have in common.
#pragma once

#include <vector>

#include "schedule/program.h"

namespace escalier::schedule {

// lower() gives every stage slots of its own, and stages of one rank are seldom full at the same time. Where
// their activations are of one size they can share: slots of chunks with equal `groups` (one entry per chunk)
// are numbered together, and each of these chunks counts those of the whole group. With all chunks in one
// group the counts are the peaks that prove() finds for the rank.
void share_slots(Program& program, const std::vector<int>& groups);

}  // namespace escalier::schedule
