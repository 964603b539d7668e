// A group of ranks one of whose collectives goes wrong, for planting faults.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"

namespace escalier::train {

enum class CommFault {
    skip,      // does nothing: every rank keeps its own part
    twice,     // sums the sum once more
    one_less,  // the part of rank 1 is missing
};

// `inner` with `fault` in every sum whose label begins with `label`; of sums in the background, in all. A
// gather that is skipped gives every rank its own part as everybody's.
std::unique_ptr<comm::Communicator> faulty(std::unique_ptr<comm::Communicator> inner,
                                           const std::string& label, CommFault fault);

}  // namespace escalier::train
