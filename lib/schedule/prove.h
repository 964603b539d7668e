// A schedule is proved before it runs.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/action.h"
#include "schedule/program.h"

namespace escalier::schedule {

struct Proof {
    // Most micro-batch activations alive at once per pipeline rank, in units of one stage's: a micro-batch
    // counts from its F to its W (B), or, where I already frees it, to its I (B).
    std::vector<int> peak_until_weight;
    std::vector<int> peak_until_input;
    // Per place (action.h): the work that adds to parameters' gradients runs in ascending micro-batch order:
    // W (linears), I (norms, embedding) and, on the last stage, F (the loss head). When all do, and there is
    // one copy of the model, results equal those of every other such schedule to the bit.
    std::vector<bool> ascending;
    bool exact = false;
    std::int64_t messages = 0;  // of one step, all ranks
};

// Proves that `programs` (of lower, one per rank) complete under rendezvous sends: every stage edge and
// direction is one in-order queue; a message moves once its producer is done, its receive is posted and the
// message before it has moved; a send holds its queue's head and its buffer, never the compute; a compute
// waits for its messages and for its output buffers. Data-parallel reductions only start inside a program, in
// the same order on all replicas, so they add no edge. ConfigError names who waits for whom.
Proof prove(const Schedule& schedule, const std::vector<Program>& programs);
// The same with the programs that lower() makes.
Proof prove(const Schedule& schedule);

}  // namespace escalier::schedule
