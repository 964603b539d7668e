#include "train/rank_state.h"

namespace escalier::train {

checkpoint::StateList rank_state(const RankModel& model, const optim::Optimizer& optimizer) {
    checkpoint::StateList state;
    const model::ParameterList updated = optim::updated_entries(model.parameters());
    const std::vector<kernels::OptimizerTensor>& tensors = optimizer.tensors();
    for (std::size_t i = 0; i < updated.size(); ++i) {
        const model::Parameter& parameter = updated[i];
        const auto add = [&](checkpoint::StateKind kind, TensorView view) {
            if (view.elements() > 0)
                state.push_back({parameter.name, kind, parameter.global_shape, parameter.transposed_in_hf,
                                 parameter.box, parameter.counted, view});
        };
        add(checkpoint::StateKind::weight, parameter.weight);
        add(checkpoint::StateKind::exp_avg, tensors[i].first_moment);
        add(checkpoint::StateKind::exp_avg_sq, tensors[i].second_moment);
    }
    return state;
}

}  // namespace escalier::train
