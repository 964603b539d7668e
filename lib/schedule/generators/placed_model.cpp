#include "schedule/generators/placed_model.h"

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "schedule/generators/kinds.h"

namespace escalier::schedule::generators {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

std::size_t at(int i) {
    return static_cast<std::size_t>(i);
}

}  // namespace

PlacedModel::PlacedModel(const GenerateOptions& options, Placement placement, const StageCosts& given)
    : shape(empty_schedule(options, placement)),
      stages(shape.stages()),
      costs(given),
      stages_of(at(options.pp)),
      limits(costs.memory_limits),
      need_from(at(stages)) {
    const auto per_stage = [&](const std::vector<double>& values) { return values.size() == at(stages); };
    ESCALIER_CHECK(per_stage(costs.durations.forward) && per_stage(costs.durations.input_gradient) &&
                       per_stage(costs.durations.weight_gradient) && per_stage(costs.bytes.forward) &&
                       per_stage(costs.bytes.linear_inputs) && per_stage(costs.bytes.output_gradients),
                   "costs are given per stage");
    ESCALIER_CHECK(limits.empty() || limits.size() == at(options.pp), "memory limits are given per rank");
    if (limits.empty()) limits.assign(at(options.pp), never);
    for (double& limit : limits) limit *= 1 + rounding;
    for (int stage = 0; stage < stages; ++stage) {
        rank_of.push_back(shape.rank_of(stage));
        stages_of[at(rank_of.back())].push_back(stage);
    }
    for (const auto& own : stages_of) {
        double held = 0, most = 0;
        for (const int stage : own) {
            held += activation(stage);
            most = std::max(most, held + costs.bytes.output_gradients[at(stage)]);
            need_from[at(stage)] = most;
        }
    }
}

double PlacedModel::work(int rank) const {
    double sum = 0;
    for (const int stage : stages_of[at(rank)])
        sum += duration(ActionKind::F, stage) + duration(ActionKind::B, stage);
    return sum;
}

double PlacedModel::longest_work() const {
    double longest = 0;
    for (int rank = 0; rank < shape.pp; ++rank) longest = std::max(longest, work(rank));
    return longest;
}

double PlacedModel::need(int rank) const {
    return need_from[at(stages_of[at(rank)].back())];
}

double PlacedModel::activation(int stage) const {
    return costs.bytes.forward[at(stage)] + costs.bytes.linear_inputs[at(stage)];
}

double PlacedModel::waiting(int stage) const {
    return costs.bytes.linear_inputs[at(stage)] + costs.bytes.output_gradients[at(stage)];
}

double PlacedModel::transfer(int from_stage, int to_stage) const {
    return rank_of[at(from_stage)] == rank_of[at(to_stage)] ? 0 : costs.durations.transfer;
}

double PlacedModel::duration(ActionKind kind, int stage) const {
    return costs.durations.of(kind, stage);
}

// Every action of a rank after the first F reaches it; all its F's and I's, then the way of the last I to the
// first stage and that W; one micro-batch alone.
double lower_bound(const PlacedModel& model) {
    const auto hop = [&](int stage) { return stage == 0 ? 0 : model.transfer(stage - 1, stage); };
    double alone = model.duration(ActionKind::W, 0);
    for (int stage = 0; stage < model.stages; ++stage)
        alone += model.duration(ActionKind::F, stage) + model.duration(ActionKind::I, stage) + 2 * hop(stage);
    double bound = alone, before = 0, after = model.duration(ActionKind::W, 0);
    for (int stage = 0; stage < model.stages; ++stage) {
        before += hop(stage);
        after += hop(stage);
        const int rank = model.rank_of[at(stage)];
        if (stage == model.stages_of[at(rank)].front()) {
            double without_weights = model.work(rank);
            for (const int own : model.stages_of[at(rank)])
                without_weights -= model.duration(ActionKind::W, own);
            const int micro_batches = model.shape.micro_batches;
            bound = std::max({bound, before + micro_batches * model.work(rank),
                              before + micro_batches * without_weights + after});
        }
        before += model.duration(ActionKind::F, stage);
        after += model.duration(ActionKind::I, stage);
    }
    return bound;
}

}  // namespace escalier::schedule::generators
