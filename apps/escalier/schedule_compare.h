// `escalier schedule --compare`: several kinds at the same sizes in one table.
#pragma once

#include <string>

#include "schedule/generators.h"
#include "schedule_costs.h"

namespace escalier::apps {

// `list` is "all", or names with commas between. Durations are of one rank's whole share of the model: a
// stage of a kind with V chunks takes 1 / V of them and keeps 1 / V of its activations, so kinds can be
// compared. Chunks, group, backward order and memory limits of `options` (chunks and group 0: not given) go
// to the kinds that take them. Kinds that do not take the sizes are listed with the reason. ConfigError for
// an unknown name and for an option that none of the kinds takes.
std::string compare_schedules(const std::string& list, const schedule::GenerateOptions& options,
                              const Costs& costs, const std::string& memory);

}  // namespace escalier::apps
