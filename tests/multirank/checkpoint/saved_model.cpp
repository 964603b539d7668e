#include "tests/multirank/checkpoint/saved_model.h"

#include <set>

#include <gtest/gtest.h>

#include "tests/harness/multirank_env.h"

namespace escalier::multirank {

using checkpoint::StateKind;

SavedModel::SavedModel(const std::string& name, const parallel::Grid& grid, std::uint64_t seed,
                       const config::CheckpointConfig& config)
    : model(small_model(name), grid, test::env().world(), seed) {
    for (const model::Parameter& parameter : model.parameters) {
        if (parameter.weight.elements() == 0) continue;
        for (const StateKind kind : checkpoint::all_state_kinds) {
            TensorView view = parameter.weight;
            if (kind != StateKind::weight) {
                std::vector<float>& moment =
                    moments.emplace_back(static_cast<std::size_t>(parameter.weight.elements()));
                const float factor = kind == StateKind::exp_avg ? 0.25f : 3.0f;
                for (std::size_t i = 0; i < moment.size(); ++i)
                    moment[i] = factor * parameter.weight.as<float>()[i] + static_cast<float>(seed);
                view = TensorView(moment.data(), DType::f32, parameter.weight.shape());
            }
            state.push_back({parameter.name, kind, parameter.global_shape, parameter.transposed_in_hf,
                             parameter.box, parameter.counted, view});
        }
    }
    device::Arenas measured = device::Arenas::measuring();
    const auto make = [&](device::Arenas& target) {
        return std::make_unique<checkpoint::Saver>(config, state, model.groups.place.dp_rank, grid.dp,
                                                   *model.device, target);
    };
    make(measured);
    arenas = std::make_unique<device::Arenas>(
        device::Arenas::allocated(measured, model.device->allocator(), model.device->host_allocator()));
    saver = make(*arenas);
}

void SavedModel::change(float change) {
    std::set<const void*> changed;  // tied entries share a weight
    for (checkpoint::StateTensor& tensor : state) {
        if (!changed.insert(tensor.view.data()).second) continue;
        for (std::int64_t i = 0; i < tensor.view.elements(); ++i) tensor.view.as<float>()[i] += change;
    }
}

std::vector<std::vector<float>> SavedModel::values() const {
    std::vector<std::vector<float>> out;
    for (const checkpoint::StateTensor& tensor : state)
        out.emplace_back(tensor.view.as<float>(), tensor.view.as<float>() + tensor.view.elements());
    return out;
}

checkpoint::SaveFacts SavedModel::facts(std::int64_t step) const {
    checkpoint::SaveFacts facts;
    facts.run.step = facts.run.updates = step;
    facts.run.consumed_samples = 8 * step;
    facts.run.consumed_tokens = 128 * step;
    facts.run.seed = 1234;
    facts.run.dataset_fingerprint = "0123456789abcdef";
    facts.run.tool_version = "test";
    facts.run.tp = model.groups.grid.tp;
    facts.run.pp = model.groups.grid.pp;
    facts.run.dp = model.groups.grid.dp;
    facts.run.schedule = "1f1b";
    facts.run.optimizer = "adamw";
    facts.run.loss_window = {1.5, 2.25};
    facts.config_text = "version: 1\n";
    return facts;
}

}  // namespace escalier::multirank
