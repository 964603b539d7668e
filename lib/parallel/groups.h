// The communicators of one rank's place in the grid, all created at start.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

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

// The groups that a job is cut into; Groups says what each is for.
enum class GroupKind { tp, dp, pp, model, kv, copies, tied };
inline constexpr std::array group_kinds = {GroupKind::tp, GroupKind::dp,     GroupKind::pp,  GroupKind::model,
                                           GroupKind::kv, GroupKind::copies, GroupKind::tied};

// How the job's ranks are cut into groups of a kind: those of one color make up one (negative: they are in
// none), in the order of their keys.
struct GroupSplit {
    int color = -1;
    int key = 0;
};
GroupSplit split_of(GroupKind kind, const Grid& grid, const GridPlace& place, int kv_heads,
                    const ModelEnds& ends);
// The ranks of the job that are in `rank`'s group of a kind, in their order there; empty: it is in none.
std::vector<int> members_of(GroupKind kind, const Grid& grid, int rank, int kv_heads, const ModelEnds& ends);

// A communicator of one rank is there too (size 1).
struct Groups {
    // Makes this rank's group of a kind from its split; null where the color is negative.
    using Make = std::function<std::unique_ptr<comm::Communicator>(GroupKind kind, const GroupSplit& split)>;

    // Collective over `job`, whose size is grid.ranks(). transport: of the tensors that tp, dp, kv, tied and
    // copies exchange; null: they lie in host memory, as what pp and model exchange always does.
    Groups(comm::Communicator& job, const Grid& grid, int kv_heads, ModelEnds ends,
           comm::Transport* transport = nullptr);
    // One stage per pipeline rank.
    Groups(comm::Communicator& job, const Grid& grid, int kv_heads)
        : Groups(job, grid, kv_heads, {0, grid.pp - 1, false}) {}
    // Of a rank of a job that need not run: make() is asked for every kind that has groups in this grid.
    Groups(const Grid& grid, int rank, int kv_heads, ModelEnds ends, comm::Transport* transport,
           const Make& make);

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
