#include "tests/multirank/optim/grid_model.h"

#include <optional>

#include "model/registry.h"

namespace escalier::multirank {

namespace {

config::ModelConfig small_gpt2() {
    config::ModelConfig config;
    config.arch = config::Arch::gpt2;
    config.num_layers = 4;
    config.hidden_size = 32;
    config.num_heads = config.num_kv_heads = 4;
    config.head_dim = 8;
    config.ffn_size = 128;
    config.vocab_size = 161;
    config.max_positions = 16;
    config.tie_embeddings = true;
    return config;
}

config::ModelConfig small_llama(std::int64_t kv_heads) {
    config::ModelConfig config = small_gpt2();
    config.arch = config::Arch::llama;
    config.num_kv_heads = kv_heads;
    config.head_dim = 12;
    config.ffn_size = 88;
    config.tie_embeddings = false;
    config.qkv_bias = true;
    config.qk_norm = true;
    return config;
}

}  // namespace

config::ModelConfig small_model(const std::string& name) {
    return name == "gpt2" ? small_gpt2() : small_llama(name == "llama 1 kv head" ? 1 : 2);
}

std::vector<parallel::Grid> grids_of(int ranks) {
    std::vector<parallel::Grid> grids;
    for (int tp = 1; tp <= ranks; tp *= 2)
        for (int pp = 1; tp * pp <= ranks; pp *= 2) grids.push_back({tp, pp, ranks / (tp * pp)});
    return grids;
}

GridModel::GridModel(const config::ModelConfig& config, const parallel::Grid& grid, comm::Communicator& job,
                     std::uint64_t seed)
    : groups(job, grid, static_cast<int>(config.num_kv_heads)), arenas([&] {
          device::Arenas measured = device::Arenas::measuring();
          build(config, measured);
          return device::Arenas::allocated(measured, device->allocator(), device->host_allocator());
      }()) {
    build(config, arenas);
    model::initialize(parameters, seed, config.num_layers, pool, *device);
}

void GridModel::build(const config::ModelConfig& config, device::Arenas& target) {
    const int stages = groups.grid.pp, stage = groups.place.pp_rank;
    const model::ModelShape shape = model::shape_of(config, 1, 16, groups.grid.tp, groups.place.tp_rank);
    model::Registry registry(config, shape, groups.grid.tp, groups.place.tp_rank, stage, target,
                             kernels::cpu_ops().prepared_weight_elements);
    std::optional<model::EmbeddingWeights> embedding;
    if (stage == 0) embedding = registry.embedding();
    const std::int64_t layers = config.num_layers / stages;
    for (std::int64_t layer = stage * layers; layer < (stage + 1) * layers; ++layer) registry.block(layer);
    if (stage == stages - 1) registry.head(embedding && config.tie_embeddings ? &embedding->table : nullptr);
    parameters = registry.parameters();
    global_entries = model::count_global_entries(config.num_layers);
}

void GridModel::set_gradient_parts() {
    for (const model::Parameter& parameter : parameters) {
        int parts = groups.grid.dp;
        if (parameter.replicas == model::Replicas::tp_sum) parts *= groups.tp->size();
        if (parameter.replicas == model::Replicas::kv_sum) parts *= groups.kv->size();
        for (std::int64_t i = 0; i < parameter.weight.elements(); ++i)
            parameter.gradient.as<float>()[i] = parameter.weight.as<float>()[i] / static_cast<float>(parts);
    }
}

}  // namespace escalier::multirank
