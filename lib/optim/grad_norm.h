// The global gradient norm and clipping.
//
// Every entry's sum of squares goes, in double, to a place of its own in one vector, [global_index][tp_rank];
// one rank fills each place, so the sum over ranks is exact, and the places are added in one fixed order: the
// norm has the same bits whatever the stages, and on every rank.
#pragma once

#include "device/arena.h"
#include "kernels/ops.h"
#include "model/parameter.h"
#include "parallel/groups.h"

namespace escalier::optim {

class GradientNorm {
 public:
    // global_entries: one more than the largest global_index of the whole model. Takes the vector from
    // `arena`.
    GradientNorm(const model::ParameterList& parameters, int global_entries, const parallel::Groups& groups,
                 const kernels::Ops& ops, device::Arena& arena);

    // The L2 norm of the completed gradients, each logical element once; collective over groups.model. A
    // non-finite counted gradient makes it non-finite on every rank, so that all take the same decision.
    double compute(const OpContext& context);

 private:
    const kernels::Ops& ops_;
    comm::Communicator& model_group_;
    struct Term {
        TensorView gradient;
        std::int64_t place;
    };
    std::vector<Term> terms_;
    TensorView partial_sums_;  // f64
};

// What gradients are multiplied by: clip / (norm + 1e-6) where that is below 1, else 1 (facts.md 4c). clip =
// 0 is off.
float clip_coefficient(double norm, double clip);

}  // namespace escalier::optim
