// Schedules of every kind, for tests of what holds for all of them.
#pragma once

#include <vector>

#include "schedule/generators.h"

namespace escalier::schedule {

// Of every kind in the table that takes the sizes; chunks are the kind's default.
inline std::vector<Schedule> every_kind(int pp, int micro_batches) {
    std::vector<Schedule> schedules;
    for (const Kind& kind : kinds()) {
        GenerateOptions options;
        options.kind = kind.name;
        options.pp = pp;
        options.chunks = kind.default_chunks;
        options.micro_batches = micro_batches;
        if (size_problem(kind, options).empty()) schedules.push_back(generate(options));
    }
    return schedules;
}

}  // namespace escalier::schedule
