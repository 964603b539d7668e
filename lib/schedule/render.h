// Schedules as text.
#pragma once

#include <istream>
#include <string>

#include "schedule/action.h"
#include "schedule/simulate.h"

namespace escalier::schedule {

// One row per pipeline rank, time from left to right, cells like F5 (4F5, with the stage, when a rank holds
// several), '.' for idle time; the last line is "idle 33.3 %".
std::string staircase(const Schedule& schedule, const Timeline& timeline);

// One line per pipeline rank, compute cells in PyTorch's format ("0F3"), no header, no idle cells.
std::string to_csv(const Schedule& schedule);

// Reads to_csv's format; empty (idle) cells are allowed. Sizes and placement follow from the cells. `name`
// (a path) stands in messages and becomes the schedule's kind. ConfigError with line and cell.
Schedule from_csv(std::istream& in, const std::string& name);

}  // namespace escalier::schedule
