// Times of the parts of a stage, found by running its actions segment by segment.
#pragma once

#include "config/profile.h"
#include "train/assembly.h"

namespace escalier::train {

// Mean seconds over the micro-batches of one pass through the program of a one-stage pipeline, this rank.
struct PartSample {
    config::PartTimes embedding, layer, head;  // of one layer
    double again = 0, again_exchange = 0;      // of one layer: what recompute did anew
};

// assembly: pp 1, after a step (which leaves its batch for this). B or I and W are filled in, as its schedule
// has them.
PartSample measure_parts(Assembly& assembly, comm::MpiEnv& env);

}  // namespace escalier::train
