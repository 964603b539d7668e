// Schedules as text.
#pragma once

#include <string>

#include "schedule/action.h"
#include "schedule/simulate.h"

namespace escalier::schedule {

// "1f1b: 4 pipeline ranks, 8 micro-batches"; chunks or copies are named where there are several.
std::string title(const Schedule& schedule);

// One row per pipeline rank, time from left to right, '.' for idle time; the last line is "idle 33.3 %".
// Cells are F5, or 4F5 with the stage when a rank holds several; 4F5&3B2 is an overlapped pair; an action
// that is too short for its cell shows its kind alone. Rows longer than a wide terminal are cut into panels,
// one below the other. Where that would fill many pages, an overview stands instead: one letter per slice of
// time, of what the rank does longest in it, '&' for pairs.
std::string staircase(const Schedule& schedule, const Timeline& timeline);

}  // namespace escalier::schedule
