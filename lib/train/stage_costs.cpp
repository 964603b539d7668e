#include "train/stage_costs.h"

#include "config/layout.h"

namespace escalier::train {

namespace {

schedule::Durations set_durations(const config::JobSpec& spec) {
    const std::vector<std::int64_t>& layers = spec.pipeline.layers_per_stage;
    schedule::Durations durations = schedule::Durations::uniform(static_cast<int>(layers.size()), 0, 0, 0, 0);
    for (std::size_t stage = 0; stage < layers.size(); ++stage) {
        const double pass = 1e-3 * spec.run.layer_ms * static_cast<double>(layers[stage]);
        const bool again = spec.train.recompute[stage] == config::Recompute::full;
        durations.forward[stage] = durations.weight_gradient[stage] = pass;
        durations.input_gradient[stage] = again ? 2 * pass : pass;
    }
    return durations;
}

}  // namespace

schedule::Durations predicted_durations(const config::JobSpec& spec) {
    if (spec.run.clock == "sleep") return set_durations(spec);
    const config::ModelCost cost = config::forward_cost(spec.model, spec.train.seq_len, spec.parallel.tp);
    const std::size_t stages = spec.pipeline.layers_per_stage.size();
    schedule::Durations durations = schedule::Durations::uniform(static_cast<int>(stages), 0, 0, 0, 0);
    for (std::size_t stage = 0; stage < stages; ++stage) {
        const double layers = static_cast<double>(spec.pipeline.layers_per_stage[stage]);
        const config::Recompute recompute = spec.train.recompute[stage];
        durations.forward[stage] = layers * cost.layer;
        durations.input_gradient[stage] = layers * cost.layer;
        durations.weight_gradient[stage] = layers * cost.layer;
        if (recompute == config::Recompute::full) durations.input_gradient[stage] += layers * cost.layer;
        if (recompute == config::Recompute::attention)
            durations.input_gradient[stage] += layers * cost.attention;
        if (stage == 0) {
            durations.forward[stage] += cost.embedding;
            durations.input_gradient[stage] += 2 * cost.embedding;
        }
        if (stage + 1 == stages) durations.forward[stage] += 3 * cost.head;
    }
    return durations;
}

}  // namespace escalier::train
