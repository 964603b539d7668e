// Walks all programs at once: every rank goes through its instructions, messages move through their channels,
// and each compute gets its times. One pass, linear in the number of instructions.
//
// A message moves once its producer is done, its receive is posted and the message before it in its channel
// has moved; a compute waits for the compute before it on its rank, for its messages and for its output
// buffers.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/assign.h"
#include "schedule/program.h"
#include "schedule/simulate.h"

namespace escalier::schedule {

struct Span {
    double start = 0;
    double end = 0;
};

struct Walk {
    bool complete = false;  // false: some ranks wait for one another; the rest below covers what did run
    std::vector<std::vector<Span>> computes;  // per rank, in order of its actions
    std::int64_t messages = 0;
    double end = 0;  // of the last compute or message
    // Rings that the longest path waits for: a larger one may shorten it. Only with WalkOptions::find_rings.
    std::vector<std::pair<int, Ring>> critical_rings;  // place, ring
};

struct WalkOptions {
    bool unlimited = false;   // as if every receive were posted from the start and buffers never ran out
    bool find_rings = false;  // fills critical_rings
};

// programs: of lower() or assign(), one per rank. durations: per stage.
Walk walk(const Schedule& schedule, const std::vector<Program>& programs, const Durations& durations,
          WalkOptions options = {});
// durations: of every action, per rank in order; both actions of an overlapped pair carry the whole pair's.
Walk walk(const Schedule& schedule, const std::vector<Program>& programs,
          const std::vector<std::vector<double>>& durations, double transfer, WalkOptions options = {});

}  // namespace escalier::schedule
