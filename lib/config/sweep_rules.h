// What axes and exclusions of a sweep must have in common.
#pragma once

#include "config/load.h"
#include "config/problems.h"

namespace escalier::config {

// An exclusion names axes and values that they take: any other would leave out nothing, which nobody means.
// Holds for specs with and without `auto`.
void apply_sweep_rules(Job& job, Problems& problems);

}  // namespace escalier::config
