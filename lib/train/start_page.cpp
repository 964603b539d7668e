#include "train/start_page.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "config/model_facts.h"
#include "core/text.h"
#include "schedule/prove.h"
#include "schedule/simulate.h"
#include "train/metrics.h"
#include "train/peak_flops.h"
#include "train/schedule_rules.h"
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

std::string device_line(const Assembly& assembly) {
    const config::JobSpec& spec = assembly.spec();
    const std::string& note = assembly.backend().note;
    const double peak = peak_flops(spec, assembly.backend().device->description());
    const std::string mfu =
        peak > 0 ? fmt::format("; MFU is against {:g} TFLOP/s a rank{}", peak / 1e12,
                               spec.log.peak_tflops ? " (log.peak_tflops)" : ", the dense bf16 peak")
                 : "";
    return fmt::format("device    {}{}, {}, tensors between ranks by {}{}", spec.run.device,
                       note.empty() ? "" : " (" + note + ")", spec.train.dtype, spec.run.comm, mfu);
}

std::string batch_line(const config::JobSpec& s) {
    return fmt::format(
        "batch     {} samples = micro-batch {} x {} micro-batches x dp {}; {} tokens each, {} tokens a step",
        s.train.global_batch, s.train.micro_batch, s.micro_batches(), s.parallel.dp, s.train.seq_len,
        grouped(s.train.global_batch * s.train.seq_len));
}

// Parameters of a stage over all its tensor ranks. head_copy: the tied head is a copy, which counts on its
// stage too.
std::int64_t stage_parameters(const config::JobSpec& spec, std::size_t stage, bool head_copy) {
    const auto stages = spec.pipeline.layers_per_stage.size();
    std::int64_t count = spec.pipeline.layers_per_stage[stage] * config::layer_parameters(spec.model);
    if (stage == 0) count += config::embedding_parameters(spec.model);
    if (stage + 1 == stages) {
        count += config::head_parameters(spec.model);
        if (head_copy) count += spec.model.vocab_size * spec.model.hidden_size;
    }
    return count;
}

// Most micro-batches whose activations a stage keeps at once, from F to W (or B).
int live_micro_batches(const schedule::Schedule& schedule, int stage, int copy) {
    using schedule::ActionKind;
    int live = 0, most = 0;
    for (const schedule::Action& action :
         schedule.ranks[static_cast<std::size_t>(schedule.rank_of(stage, copy))]) {
        if (action.stage != stage || schedule.copy_of(action.micro_batch) != copy) continue;
        if (action.kind == ActionKind::F) most = std::max(most, ++live);
        if (action.kind == ActionKind::B || action.kind == ActionKind::W) --live;
    }
    return most;
}

// What belongs to one stage, over the ranks that hold it: two pipeline ranks where the model has two copies.
struct StagePlaces {
    std::string ranks, live;  // pipeline ranks; micro-batches whose activations are alive at once
    double most_memory = 0;   // bytes of the fullest rank
};

StagePlaces places_of(const Assembly& assembly, int stage, const std::vector<double>& memory) {
    const schedule::Schedule& schedule = assembly.schedule();
    const parallel::Grid& grid = assembly.groups().grid;
    StagePlaces places;
    for (int copy = 0; copy < schedule.copies(); ++copy) {
        const int pp_rank = schedule.rank_of(stage, copy);
        const char* const separator = copy > 0 ? ", " : "";
        places.ranks += separator + std::to_string(pp_rank);
        places.live += separator + std::to_string(live_micro_batches(schedule, stage, copy));
        for (int rank = 0; rank < grid.ranks(); ++rank)
            if (grid.place_of(rank).pp_rank == pp_rank)
                places.most_memory = std::max(places.most_memory, memory[static_cast<std::size_t>(rank)]);
    }
    return places;
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
    const parallel::ModelEnds ends = parallel::ends_of(assembly.schedule());
    const bool head_copy = spec.model.tie_embeddings && ends.first != ends.last && !ends.two_copies;
    std::string text =
        "stage  pp rank  layers   parameters  work share  live micro-batches  recompute         MiB per rank";
    std::int64_t first_layer = 0;
    for (std::size_t s = 0; s < stages; ++s) {
        const std::int64_t layers = spec.pipeline.layers_per_stage[s];
        const StagePlaces places = places_of(assembly, static_cast<int>(s), memory);
        text += fmt::format("\n{:>5}  {:>7}  {:>6}  {:>11}  {:>8.1f} %  {:>18}  {:<16}  {:>12.1f}", s,
                            places.ranks,
                            layers == 1 ? std::to_string(first_layer)
                                        : fmt::format("{}-{}", first_layer, first_layer + layers - 1),
                            grouped(stage_parameters(spec, s, head_copy)), 100 * work[s] / total, places.live,
                            recompute_text(spec.train.recompute[s], spec.train.recompute_every),
                            places.most_memory / (1 << 20));
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
    std::string text;
    text += fmt::format("grid      {} (tensor x pipeline x data), {} ranks\n", assembly.groups().grid.text(),
                        assembly.groups().grid.ranks());
    text += rank_table + "\n";
    text += device_line(assembly) + "\n";
    text += "model     " + config::model_text(spec.model) + "\n";
    text += stage_table(assembly, memory) + "\n";
    text += batch_line(spec) + "\n";
    const schedule::Durations equal = schedule::Durations::uniform(assembly.schedule().stages(), 1, 1, 1, 0);
    text += fmt::format(
        "schedule  {}, predicted bubble {:.1f} % ({:.1f} % if all stages were equal and F, I, W of one "
        "length)",
        schedule_text(spec), 100 * predicted_bubble(assembly),
        100 * schedule::simulate(assembly.schedule(), assembly.programs(), equal).idle_share);
    if (!schedule::prove(assembly.schedule(), assembly.programs()).exact)
        text += "; its results agree with 1f1b's to rounding, not to the bit";
    return text;
}

}  // namespace escalier::train
