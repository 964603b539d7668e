// A step of the pipeline as it really ran, beside what its schedule could do at best.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/bubble.h"
#include "schedule/action.h"
#include "schedule/program.h"

namespace escalier::report {

// Larger ones are no pictures any more.
inline constexpr std::size_t most_pictured_actions = 100000;

// SVG; times in milliseconds. actions: of all pipeline ranks in one step, in seconds of one clock. Below it,
// on the same scale: the schedule with every action at the mean of its kind over all stages, and messages for
// nothing.
std::string pipeline_picture(const schedule::Schedule& schedule,
                             const std::vector<schedule::Program>& programs,
                             const pipeline::RankActions& actions, std::int64_t step);

}  // namespace escalier::report
