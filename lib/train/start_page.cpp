#include "train/start_page.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "config/model_facts.h"
#include "core/text.h"
#include "schedule/simulate.h"
#include "train/metrics.h"
#include "train/stage_costs.h"

namespace escalier::train {

namespace {

std::string recompute_text(config::Recompute recompute, std::int64_t every) {
    switch (recompute) {
        case config::Recompute::none:
            return "none";
        case config::Recompute::attention:
            return "attention";
        case config::Recompute::full:
            return every > 1 ? fmt::format("full, every {}", every) : "full";
    }
    return "";
}

std::string model_line(const config::ModelConfig& m) {
    return fmt::format(
        "model     {}, {} layers x {} hidden x {} heads{}, ffn {}, vocabulary {}, parameters {}",
        m.arch == config::Arch::gpt2 ? "gpt2" : "llama", m.num_layers, m.hidden_size, m.num_heads,
        m.num_kv_heads != m.num_heads ? fmt::format(" on {} key/value heads", m.num_kv_heads) : "",
        m.ffn_size, grouped(m.vocab_size), grouped(config::parameter_count(m)));
}

std::string batch_line(const config::JobSpec& s) {
    return fmt::format(
        "batch     {} samples = micro-batch {} x {} micro-batches x dp {}; {} tokens each, {} tokens a step",
        s.train.global_batch, s.train.micro_batch, s.micro_batches(), s.parallel.dp, s.train.seq_len,
        grouped(s.train.global_batch * s.train.seq_len));
}

// Parameters of a stage over all its tensor ranks; a tied head that is a copy counts on its stage too.
std::int64_t stage_parameters(const config::JobSpec& spec, std::size_t stage) {
    const auto stages = spec.pipeline.layers_per_stage.size();
    std::int64_t count = spec.pipeline.layers_per_stage[stage] * config::layer_parameters(spec.model);
    if (stage == 0) count += config::embedding_parameters(spec.model);
    if (stage + 1 == stages) {
        count += config::head_parameters(spec.model);
        if (spec.model.tie_embeddings && stages > 1) count += spec.model.vocab_size * spec.model.hidden_size;
    }
    return count;
}

// Bytes of all arenas of every rank of the job.
std::vector<double> gather_memory(const Assembly& assembly, comm::Communicator& job) {
    std::vector<double> all(static_cast<std::size_t>(job.size()));
    double mine = static_cast<double>(assembly.arenas().used());
    job.all_gather(TensorView(all.data(), DType::f64, {job.size()}), TensorView(&mine, DType::f64, {1}),
                   "memory of every rank");
    return all;
}

std::string stage_table(const Assembly& assembly, const std::vector<double>& memory) {
    const config::JobSpec& spec = assembly.spec();
    const schedule::Durations cost = predicted_durations(spec);
    const std::size_t stages = spec.pipeline.layers_per_stage.size();
    std::vector<double> work(stages);
    double total = 0;
    for (std::size_t s = 0; s < stages; ++s)
        total += work[s] = cost.forward[s] + cost.input_gradient[s] + cost.weight_gradient[s];
    std::string text =
        "stage  layers   parameters  work share  live micro-batches  recompute         MiB per rank";
    std::int64_t first_layer = 0;
    for (std::size_t s = 0; s < stages; ++s) {
        const std::int64_t layers = spec.pipeline.layers_per_stage[s];
        const parallel::Grid& grid = assembly.groups().grid;
        double most = 0;  // over the ranks of the stage
        for (int rank = 0; rank < grid.ranks(); ++rank)
            if (grid.place_of(rank).pp_rank == static_cast<int>(s))
                most = std::max(most, memory[static_cast<std::size_t>(rank)]);
        text += fmt::format(
            "\n{:>5}  {:>6}  {:>11}  {:>8.1f} %  {:>18}  {:<16}  {:>12.1f}", s,
            fmt::format("{}-{}", first_layer, first_layer + layers - 1), grouped(stage_parameters(spec, s)),
            100 * work[s] / total, assembly.programs()[s].chunks[0].forward_slots,
            recompute_text(spec.train.recompute[s], spec.train.recompute_every), most / (1 << 20));
        first_layer += layers;
    }
    return text;
}

}  // namespace

double predicted_bubble(const Assembly& assembly) {
    return schedule::simulate(assembly.schedule(), assembly.programs(), predicted_durations(assembly.spec()))
        .idle_share;
}

std::string start_page(const Assembly& assembly, comm::Communicator& job, const std::string& rank_table) {
    const config::JobSpec& spec = assembly.spec();
    const std::vector<double> memory = gather_memory(assembly, job);
    const double stages = static_cast<double>(spec.parallel.pp),
                 micro_batches = static_cast<double>(spec.micro_batches());
    std::string text;
    text += fmt::format("grid      {} (tensor x pipeline x data), {} ranks\n", assembly.groups().grid.text(),
                        assembly.groups().grid.ranks());
    text += rank_table + "\n";
    text += model_line(spec.model) + "\n";
    text += stage_table(assembly, memory) + "\n";
    text += batch_line(spec) + "\n";
    text += fmt::format("schedule  {}, predicted bubble {:.1f} % (equal stages: (P-1)/(M+P-1) = {:.1f} %)",
                        spec.pipeline.schedule, 100 * predicted_bubble(assembly),
                        100 * (stages - 1) / (micro_batches + stages - 1));
    return text;
}

}  // namespace escalier::train
