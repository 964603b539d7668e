#include "optim/grad_norm.h"

#include <algorithm>
#include <cmath>

namespace escalier::optim {

GradientNorm::GradientNorm(const model::ParameterList& parameters, int global_entries,
                           const parallel::Groups& groups, const kernels::Ops& ops, device::Device& device,
                           device::Arenas& arenas)
    : ops_(ops), device_(device), model_group_(*groups.model) {
    const std::int64_t tp = groups.grid.tp;
    for (const model::Parameter& parameter : parameters) {
        if (!parameter.counted || parameter.gradient.elements() == 0) continue;
        ESCALIER_CHECK(parameter.global_index >= 0 && parameter.global_index < global_entries,
                       "global_index of " + parameter.name + " is out of range");
        terms_.push_back({parameter.gradient, parameter.global_index * tp + groups.place.tp_rank});
    }
    std::vector<std::int64_t> places;
    for (const kernels::SumTerm& term : terms_) places.push_back(term.place);
    std::sort(places.begin(), places.end());
    ESCALIER_CHECK(std::adjacent_find(places.begin(), places.end()) == places.end(),
                   "two counted entries of one rank have the same global_index");
    partial_sums_ = device::Mirror::take(arenas, device, DType::f64, {global_entries * tp});
    all_sums_ = arenas.host.take(DType::f64, {global_entries * tp});
}

void GradientNorm::queue(const OpContext& context) {
    ops_.sum_of_squares(context, partial_sums_.device, terms_);
    partial_sums_.download(device_);
}

double GradientNorm::finish() {
    const double* own = partial_sums_.host.as<double>();
    double* sums = all_sums_.as<double>();
    const std::int64_t count = all_sums_.elements();
    std::fill(sums, sums + count, 0.0);
    for (const kernels::SumTerm& term : terms_) sums[term.place] = own[term.place];
    if (model_group_.size() > 1) model_group_.all_reduce_sum(all_sums_, "gradient norm");
    double total = 0.0;
    for (std::int64_t i = 0; i < count; ++i) total += sums[i];
    return std::sqrt(total);
}

float clip_coefficient(double norm, double clip) {
    if (clip <= 0.0) return 1.0f;
    const double coefficient = clip / (norm + 1e-6);
    return coefficient < 1.0 ? static_cast<float>(coefficient) : 1.0f;
}

}  // namespace escalier::optim
