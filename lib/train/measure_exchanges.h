// Times of what ranks exchange outside the tensor group.
#pragma once

#include "train/assembly.h"

namespace escalier::train {

struct ExchangeTimes {
    double message = 0;     // seconds of one boundary tensor, one way
    double reduction = 0;   // seconds per gradient element: sum over all ranks of `peers`
    double remote_tie = 0;  // seconds per element: sum over two ranks
};

// peers: ranks of one tensor place, one from each replica that measures; a group for device tensors.
// Collective over it. Zero where it has one rank. Overwrites the assembly's gradients.
ExchangeTimes measure_exchanges(Assembly& assembly, comm::MpiEnv& env, comm::Communicator& host_peers,
                                comm::Communicator& peers, int repeats);

}  // namespace escalier::train
