// A schedule with its times and its proof, for machines.
#pragma once

#include <string>

#include "schedule/action.h"
#include "schedule/prove.h"
#include "schedule/simulate.h"

namespace escalier::schedule {

// One object: kind and sizes; durations per stage; makespan, span and both idle shares (simulate.h);
// messages; proof; and per pipeline rank its stages, busy time, idle share, peaks (in activations of one
// stage) and actions in order, each with start and end. An action with "overlaps_next" runs together with the
// next one.
std::string to_json(const Schedule& schedule, const Durations& durations, const Timeline& timeline,
                    const Proof& proof);

}  // namespace escalier::schedule
