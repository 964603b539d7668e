#include "optim/completion.h"

#include <algorithm>

namespace escalier::optim {

namespace {

// The order of the whole model, in which all ranks list the same tensors whatever their own order.
std::vector<const model::Parameter*> in_global_order(const model::ParameterList& parameters) {
    std::vector<const model::Parameter*> sorted;
    for (const model::Parameter& parameter : parameters) sorted.push_back(&parameter);
    std::sort(sorted.begin(), sorted.end(),
              [](const auto* a, const auto* b) { return a->global_index < b->global_index; });
    return sorted;
}

}  // namespace

GradientCompletion::GradientCompletion(const model::ParameterList& parameters, const parallel::Groups& groups,
                                       const kernels::Ops& ops, device::Arena& arena)
    : ops_(ops), tied_(groups.tied.get()) {
    over_copies_.group = groups.copies.get();
    over_copies_.label = "sum of gradients over the two copies of the model";
    over_tp_.group = groups.tp.get();
    over_tp_.label = "sum over tp of gradients";
    over_kv_.group = groups.kv.get();
    over_kv_.label = "sum over kv of gradients";
    for (const model::Parameter& parameter : parameters) {
        if (parameter.gradient.elements() == 0) continue;
        if (parameter.replicas == model::Replicas::tp_sum) over_tp_.add(parameter.gradient);
        if (parameter.replicas == model::Replicas::kv_sum) over_kv_.add(parameter.gradient);
    }
    for (const model::Parameter* parameter : in_global_order(parameters))
        if (parameter->gradient.elements() > 0) over_copies_.add(parameter->gradient);
    const std::int64_t staging =
        std::max({over_copies_.small.elements(), over_tp_.small.elements(), over_kv_.small.elements()});
    if (staging > 0) {
        const TensorView buffer = arena.take(DType::f32, {staging});
        over_copies_.staging = buffer.rows(0, over_copies_.small.elements());
        over_tp_.staging = buffer.rows(0, over_tp_.small.elements());
        over_kv_.staging = buffer.rows(0, over_kv_.small.elements());
    }
    find_ties(parameters);
}

void GradientCompletion::find_ties(const model::ParameterList& parameters) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const model::Parameter& parameter = parameters[i];
        if (parameter.tie_group < 0 || parameter.gradient.elements() == 0) continue;
        const auto same_group = [&](const model::Parameter& other) {
            return other.tie_group == parameter.tie_group;
        };
        const auto here = static_cast<std::ptrdiff_t>(i);
        const auto earlier = std::find_if(parameters.begin(), parameters.begin() + here, same_group);
        const auto later = std::find_if(parameters.begin() + here + 1, parameters.end(), same_group);
        if (earlier != parameters.begin() + here) continue;
        if (later != parameters.end()) {
            ESCALIER_CHECK(later->weight.data() == parameter.weight.data(),
                           "tied parameters of one rank must share one weight");
            local_ties_.push_back({parameter.gradient, later->gradient});
        } else {
            ESCALIER_CHECK(tied_ && tied_->size() == 2, "no group connects the copies of a tied parameter");
            remote_ties_.push_back(parameter.gradient);
        }
    }
}

void GradientCompletion::PartialSums::add(TensorView gradient) {
    if (!group || group->size() == 1) return;
    if (gradient.elements() < pack_below_elements)
        small.add(gradient);
    else
        large.push_back(gradient);
}

void GradientCompletion::PartialSums::run(const OpContext& context, const kernels::Ops& ops) {
    if (!small.empty()) {
        small.pack(context, ops, staging);
        group->all_reduce_sum(staging, label);
        small.unpack(context, ops, staging);
    }
    for (const TensorView& gradient : large) group->all_reduce_sum(gradient, label);
}

void GradientCompletion::run(const OpContext& context) {
    over_copies_.run(context, ops_);
    over_tp_.run(context, ops_);
    over_kv_.run(context, ops_);
    for (const LocalTie& tie : local_ties_) ops_.add(context, tie.embedding, tie.head);
    // Rank 0 of the group is the first stage, with the embedding's part.
    for (const TensorView& gradient : remote_ties_)
        tied_->all_reduce_sum(gradient, "sum of the tied embedding's gradients");
}

}  // namespace escalier::optim
