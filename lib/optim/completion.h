// What completes gradients after the data-parallel sum (design: "Numerics contract", item 4): the sum of the
// model's two copies, if there are two, the sums over ranks that hold the same parameter and computed a part
// each, then the tied embedding.
//
// Embedding and head accumulate apart even where both live on one rank; here the two are added once,
// embedding first, so that the sum has the same bits on every grid.
#pragma once

#include <vector>

#include "device/arena.h"
#include "kernels/ops.h"
#include "model/parameter.h"
#include "optim/packed_views.h"
#include "parallel/groups.h"

namespace escalier::optim {

class GradientCompletion {
 public:
    // Takes a staging buffer from `arena`. A measuring arena needs of `groups` only sizes.
    GradientCompletion(const model::ParameterList& parameters, const parallel::Groups& groups,
                       const kernels::Ops& ops, device::Arena& arena);

    // Collective over copies, tp, kv and tied groups. Where both entries of a tie group live on one rank they
    // share one weight, and the whole gradient is in the first entry's view afterwards; else in both ranks'
    // views.
    void run(const OpContext& context);

 private:
    // Sums over one group: packed small ones, then large ones in place.
    struct PartialSums {
        comm::Communicator* group = nullptr;
        const char* label = "";
        PackedViews small;
        std::vector<TensorView> large;
        TensorView staging;

        void add(TensorView gradient);
        void run(const OpContext& context, const kernels::Ops& ops);
    };
    struct LocalTie {
        TensorView embedding;
        TensorView head;
    };

    void find_ties(const model::ParameterList& parameters);

    const kernels::Ops& ops_;
    PartialSums over_copies_;
    PartialSums over_tp_;
    PartialSums over_kv_;
    std::vector<LocalTie> local_ties_;
    std::vector<TensorView> remote_ties_;
    comm::Communicator* tied_ = nullptr;
};

}  // namespace escalier::optim
