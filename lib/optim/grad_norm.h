// The global gradient norm and clipping.
//
// Every entry's sum of squares goes, in double, to a place of its own in one vector, [global_index][tp_rank];
// one rank fills each place, so the sum over ranks is exact, and the places are added in one fixed order: the
// norm has the same bits whatever the stages, and on every rank.
#pragma once

#include "device/mirror.h"
#include "kernels/ops.h"
#include "model/parameter.h"
#include "parallel/groups.h"

namespace escalier::optim {

class GradientNorm {
 public:
    // global_entries: one more than the largest global_index of the whole model.
    GradientNorm(const model::ParameterList& parameters, int global_entries, const parallel::Groups& groups,
                 const kernels::Ops& ops, device::Device& device, device::Arenas& arenas);

    // Queues the sums of squares of the completed gradients and their way to the host.
    void queue(const OpContext& context);
    // When the device has run them: the L2 norm, each logical element once; collective over groups.model. A
    // non-finite counted gradient makes it non-finite on every rank, so that all take the same decision.
    double finish();

 private:
    const kernels::Ops& ops_;
    device::Device& device_;
    comm::Communicator& model_group_;
    std::vector<kernels::SumTerm> terms_;
    device::Mirror partial_sums_;  // f64
    TensorView all_sums_;          // f64, on the host
};

// What gradients are multiplied by: clip / (norm + 1e-6) where that is below 1, else 1 (facts.md 4c). clip =
// 0 is off.
float clip_coefficient(double norm, double clip);

}  // namespace escalier::optim
