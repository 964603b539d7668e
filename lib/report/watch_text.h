// How far a run is, as text.
#pragma once

#include <string>
#include <vector>

#include "report/run_data.h"

namespace escalier::report {

// For a terminal: a few lines of at most `columns` characters, the first one with a bar. now: unix seconds.
std::vector<std::string> watch_page(const std::string& name, const RunData& data, RunState state, double now,
                                    std::size_t columns);

// The same in one line, for a log.
std::string watch_line(const RunData& data);

// "finished: all steps done", "died after step 12: it left no end behind, and nothing holds its folder"
std::string end_text(const RunData& data, RunState state);

// Seconds until the last planned step at the pace of the last steps, saves and validation included; unknown
// before the second one of this session.
double seconds_left(const RunData& data);

}  // namespace escalier::report
