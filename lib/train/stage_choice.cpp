#include "train/stage_choice.h"

#include <utility>

#include "config/layout.h"
#include "config/number_text.h"
#include "config/profile.h"
#include "plan/balance.h"
#include "plan/candidates.h"
#include "plan/part_times.h"
#include "plan/stage_times.h"
#include "train/cuda_plugin.h"

namespace escalier::train {

namespace {

using config::JobSpec;
using config::Recompute;

bool by_profile(const config::PipelineConfig& pipeline) {
    return pipeline.layers_per_stage.empty() && pipeline.layout != "even" && pipeline.layout != "balanced";
}

struct Basis {
    config::ModelTimes times;
    std::string dtype;
};

// Where run.device is auto, a driver tells of a GPU; to ask CUDA itself would start it.
Basis basis_of(const JobSpec& spec) {
    if (by_profile(spec.pipeline)) {
        const std::string& path = spec.pipeline.layout;
        const config::Profile profile =
            config::parse_profile(config::read_yaml_file(path, config::profile_kind));
        config::require_same_work(profile, spec, path);
        return {profile.times, profile.sizes.dtype};
    }
    const bool gpu = spec.run.device == "cuda" || (spec.run.device == "auto" && worth_looking_for_cuda());
    // Only how the parts compare counts.
    const plan::Hardware hardware = plan::built_in_hardware(gpu ? "h100" : "cpu");
    return {plan::roofline_times(spec, hardware), plan::planned_dtype(spec, hardware)};
}

// As many micro-batches alive as the schedule keeps.
plan::Candidate candidate_of(const JobSpec& spec) {
    plan::Candidate c;
    c.grid = {spec.parallel.tp, spec.parallel.pp, spec.parallel.dp};
    c.schedule = spec.pipeline.schedule;
    c.chunks = static_cast<int>(spec.pipeline.chunks.value_or(1));
    c.micro_batch = spec.train.micro_batch;
    c.micro_batches = spec.micro_batches();
    return c;
}

std::vector<std::int64_t> fixed_layers(const JobSpec& spec, std::int64_t stages) {
    if (!spec.pipeline.layers_per_stage.empty()) return spec.pipeline.layers_per_stage;
    if (spec.pipeline.layout == "even") return config::even_layout(spec.model.num_layers, stages);
    return {};
}

}  // namespace

config::StageChoice choose_stages(const JobSpec& asked, std::int64_t stages) {
    using plan::most_balanced_layers;
    if (asked.model.num_layers > most_balanced_layers)
        return {{},
                {},
                "model.num_layers",
                std::to_string(asked.model.num_layers) + " are more than the " +
                    std::to_string(most_balanced_layers) +
                    " that a layout by a profile, or recompute auto, is found for; give pipeline.layout and "
                    "train.recompute"};
    const auto [known_times, dtype] = basis_of(asked);
    const config::ModelTimes& times = known_times;
    JobSpec spec = asked;
    spec.train.dtype = dtype;
    const plan::Candidate candidate = candidate_of(spec);
    const std::vector<std::int64_t> fixed = fixed_layers(spec, stages);
    const bool split = plan::splits_backward(candidate.schedule);
    constexpr double gib = 1024.0 * 1024 * 1024;
    const double limit = spec.train.memory_gib * gib;
    const auto last = static_cast<int>(stages) - 1;

    plan::BalanceProblem problem;
    problem.num_layers = spec.model.num_layers;
    problem.stages = static_cast<int>(stages);
    for (std::int64_t stage = 0; stage < stages; ++stage)
        problem.choices.push_back(
            spec.train.recompute.empty()
                ? std::vector<Recompute>{Recompute::none, Recompute::attention, Recompute::full}
                : std::vector<Recompute>{spec.train.recompute[static_cast<std::size_t>(stage)]});
    problem.seconds = [&](int stage, std::int64_t layers, Recompute recompute) {
        return plan::stage_seconds(times, layers, stage == 0, stage == last, recompute, split);
    };
    problem.fits = [&](int stage, std::int64_t layers, Recompute recompute) {
        if (!fixed.empty() && layers != fixed[static_cast<std::size_t>(stage)]) return false;
        return limit <= 0 ||
               candidate.chunks * plan::stage_bytes(candidate, spec, stage, layers, recompute) <= limit;
    };
    plan::Balance found = plan::balance(problem);
    config::StageChoice choice;
    if (found.layers.empty()) {
        choice.key = "train.memory_gib";
        choice.problem =
            config::real_text(spec.train.memory_gib) + " GiB hold no layout of " +
            std::to_string(spec.model.num_layers) + " layers on " + std::to_string(stages) +
            " stages, whatever is recomputed; give more, lower train.micro_batch, or spread the model "
            "over more ranks";
        return choice;
    }
    choice.layers = std::move(found.layers);
    choice.recompute = std::move(found.recompute);
    return choice;
}

}  // namespace escalier::train
