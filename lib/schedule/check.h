// What makes a list of actions a schedule at all, before anything is said about time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/error.h"
#include "schedule/action.h"

namespace escalier::schedule {

// training: every F, and B or I and W, of every stage and micro-batch. forward: every F and nothing else.
enum class Pass : std::uint8_t { training, forward };

// forward when the schedule has forward actions only.
Pass pass_of(const Schedule& schedule);

// ConfigError unless all three are at least 1 and their product is at most most_schedule_cells.
void check_size(int pp, int chunks, int micro_batches);

// What is wrong, and where: `rank` and, unless an action is missing there, `position` in its list (-1
// otherwise).
struct IncompleteSchedule : ConfigError {
    IncompleteSchedule(const Schedule& schedule, int rank, int position, const std::string& why);
    int rank, position;
    std::string why;
};

// Sizes as above; every action of the pass exactly once, on the rank that holds its stage, and on that rank F
// before I or B, I before W. IncompleteSchedule names the first that is wrong.
void check_complete(const Schedule& schedule, Pass pass);

}  // namespace escalier::schedule
