#include "train/start_page.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "config/model_facts.h"
#include "core/text.h"
#include "schedule/simulate.h"
#include "train/memory_report.h"
#include "train/metrics.h"
#include "train/peak_flops.h"
#include "train/schedule_rules.h"
#include "train/stage_costs.h"
#include "train/stage_facts.h"

namespace escalier::train {

namespace {

std::string device_line(const Assembly& assembly) {
    const config::JobSpec& spec = assembly.spec();
    const std::string& note = assembly.backend().note;
    const double peak = peak_flops(spec, assembly.backend().device->description());
    const std::string mfu =
        peak > 0 ? fmt::format("; MFU is against {:g} TFLOP/s a device{}", peak / 1e12,
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

std::string memory_line(const std::vector<double>& memory) {
    const auto fullest = std::max_element(memory.begin(), memory.end());
    return fmt::format("memory    {} bytes in arenas on rank {}, the fullest, as escalier plan lists them",
                       grouped(static_cast<std::int64_t>(*fullest)), fullest - memory.begin());
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
        "stage  pp rank  layers   parameters  work share  live micro-batches  recompute         MiB per rank";
    std::int64_t first_layer = 0;
    for (std::size_t s = 0; s < stages; ++s) {
        const std::int64_t layers = spec.pipeline.layers_per_stage[s];
        const StagePlaces places = places_of(assembly, static_cast<int>(s), memory);
        text += fmt::format(
            "\n{:>5}  {:>7}  {:>6}  {:>11}  {:>8.1f} %  {:>18}  {:<16}  {:>12.1f}", s, places.ranks,
            layers == 1 ? std::to_string(first_layer)
                        : fmt::format("{}-{}", first_layer, first_layer + layers - 1),
            grouped(stage_parameters(spec, assembly.schedule(), static_cast<int>(s))), 100 * work[s] / total,
            places.live, recompute_text(spec.train.recompute[s], spec.train.recompute_every),
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

std::string start_page(const Assembly& assembly, const std::vector<std::vector<device::ArenaSize>>& arenas,
                       const std::string& rank_table) {
    const config::JobSpec& spec = assembly.spec();
    std::vector<double> memory;
    for (const std::vector<device::ArenaSize>& rank : arenas)
        memory.push_back(static_cast<double>(arena_bytes(rank)));
    std::string text;
    text += fmt::format("grid      {} (tensor x pipeline x data), {} ranks\n", assembly.groups().grid.text(),
                        assembly.groups().grid.ranks());
    text += rank_table + "\n";
    text += device_line(assembly) + "\n";
    text += "model     " + config::model_text(spec.model) + "\n";
    text += stage_table(assembly, memory) + "\n";
    text += memory_line(memory) + "\n";
    text += batch_line(spec) + "\n";
    const schedule::Durations equal = schedule::Durations::uniform(assembly.schedule().stages(), 1, 1, 1, 0);
    text += fmt::format(
        "schedule  {}, predicted bubble {:.1f} % ({:.1f} % if all stages were equal and F, I, W of one "
        "length)",
        schedule_text(spec), 100 * predicted_bubble(assembly),
        100 * schedule::simulate(assembly.schedule(), assembly.programs(), equal).idle_share);
    if (!assembly.proof().exact) text += "; its results agree with 1f1b's to rounding, not to the bit";
    return text;
}

}  // namespace escalier::train
