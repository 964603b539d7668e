// The communicators of one rank's place in the grid, all created at start.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "parallel/grid.h"

namespace escalier::parallel {

// Built collectively over `job`, whose size is grid.ranks(); a communicator of one rank is there too (size
// 1).
struct Groups {
    Groups(comm::Communicator& job, const Grid& grid, int kv_heads);

    Grid grid;
    GridPlace place;
    std::unique_ptr<comm::Communicator> tp;     // ordered by tp_rank
    std::unique_ptr<comm::Communicator> dp;     // ordered by dp_rank
    std::unique_ptr<comm::Communicator> pp;     // ordered by pp_rank
    std::unique_ptr<comm::Communicator> model;  // tp x pp of one replica, ordered by pp_rank, then tp_rank
    std::unique_ptr<comm::Communicator> kv;  // the tensor ranks that hold copies of the same key/value heads
    std::unique_ptr<comm::Communicator> tied;  // first and last stage of one (tp, dp) place; null elsewhere
};

}  // namespace escalier::parallel
