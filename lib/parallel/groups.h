// The communicators of one rank's place in the grid, all created at start.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "comm/transport.h"
#include "parallel/grid.h"
#include "schedule/action.h"

namespace escalier::parallel {

// The pipeline ranks where the model begins and ends.
struct ModelEnds {
    int first = 0;
    int last = 0;
    bool two_copies = false;  // a second copy of the model runs from `last` to `first` (DualPipe)
};
ModelEnds ends_of(const schedule::Schedule& schedule);

// Built collectively over `job`, whose size is grid.ranks(); a communicator of one rank is there too (size
// 1).
struct Groups {
    // transport: of the tensors that tp, dp, kv, tied and copies exchange; null: they lie in host memory, as
    // what pp and model exchange always does.
    Groups(comm::Communicator& job, const Grid& grid, int kv_heads, ModelEnds ends,
           comm::Transport* transport = nullptr);
    // One stage per pipeline rank.
    Groups(comm::Communicator& job, const Grid& grid, int kv_heads)
        : Groups(job, grid, kv_heads, {0, grid.pp - 1, false}) {}

    Grid grid;
    GridPlace place;
    std::unique_ptr<comm::Communicator> tp;     // ordered by tp_rank
    std::unique_ptr<comm::Communicator> dp;     // ordered by dp_rank
    std::unique_ptr<comm::Communicator> pp;     // ordered by pp_rank
    std::unique_ptr<comm::Communicator> model;  // tp x pp of one replica, ordered by pp_rank, then tp_rank
    std::unique_ptr<comm::Communicator> kv;  // the tensor ranks that hold copies of the same key/value heads
    // The ranks of one (tp, dp) place that hold the first and the last stage, in this order. Null on others,
    // where one rank holds both, and with two copies: each of the two ranks then has both stages, of one copy
    // each.
    std::unique_ptr<comm::Communicator> tied;
    // With two copies of the model, the two pipeline ranks r and pp-1-r of one (tp, dp) place, which hold the
    // same stages; null with one.
    std::unique_ptr<comm::Communicator> copies;
};

}  // namespace escalier::parallel
