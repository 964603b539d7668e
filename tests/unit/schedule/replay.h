// Runs the programs of all ranks as rank and channel state machines, in random order, and watches every
// buffer. Written apart from the module's own graph, so that the two can be held against each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/action.h"
#include "schedule/program.h"

namespace escalier::schedule {

struct ReplayOptions {
    bool blocking_sends = false;  // a send keeps its rank from going on until the message has moved
    std::uint32_t seed = 1;
};

struct ReplayResult {
    bool completed = false;  // false: no rank can go on
    std::string fault;       // the first misuse of a buffer, queue or reduction; empty when there is none
};

ReplayResult replay(const Schedule& schedule, const std::vector<Program>& programs,
                    ReplayOptions options = {});

// The same programs with every receive right before the compute that needs it.
std::vector<Program> receive_late(std::vector<Program> programs);

}  // namespace escalier::schedule
