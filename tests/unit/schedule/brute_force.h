// Judges a schedule apart from the module: by counting and by trying.
#pragma once

#include "schedule/action.h"

namespace escalier::schedule {

// Every action exactly once on its rank, pairs well-formed, and all of them run when every rank starts its
// next action, or pair, as soon as it can.
bool holds_by_brute_force(const Schedule& schedule);

// Most alive at a moment on a rank: their F has come, their `last` (or B) has not.
int peak_by_brute_force(const std::vector<Action>& actions, ActionKind last);

// Copy by copy and stage by stage, whether weight gradients come in micro-batch order.
std::vector<bool> ascends_by_brute_force(const Schedule& schedule);

}  // namespace escalier::schedule
