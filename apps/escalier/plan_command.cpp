#include "plan_command.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "config/fields.h"
#include "config/model_facts.h"
#include "config/validate.h"
#include "core/machine_facts.h"
#include "core/text.h"
#include "number_options.h"
#include "plan_memory.h"
#include "schedule/render_text.h"
#include "schedule/simulate.h"
#include "train/cuda_plugin.h"
#include "train/schedule_rules.h"
#include "train/stage_costs.h"

namespace escalier::apps {

namespace {

constexpr int gpus_per_node = 8;
constexpr std::ptrdiff_t most_drawn_lines = 40;  // a page

struct Arguments {
    std::string job;
    std::vector<std::string> overrides;
    std::int64_t ranks = 0;           // 0: as many as the grid of the job spec
    std::int64_t ranks_per_node = 0;  // 0: all on one node, or gpus_per_node
    std::optional<double> memory_gib;
    bool all_ranks = false;
    bool json = false;
};

config::Job load(const Arguments& arguments) {
    const config::JobFile file = config::read_job_file(arguments.job);
    std::int64_t ranks = arguments.ranks;
    if (ranks == 0) {
        const config::ParallelConfig grid = config::load(file, arguments.overrides).spec.parallel;
        ranks = grid.tp * grid.pp * std::max<std::int64_t>(1, grid.dp);
    }
    return config::load_resolved(file, arguments.overrides, ranks, config::process_environment(),
                                 train::schedule_rules());
}

// What run.device: auto would take here.
std::string device_here() {
    if (!train::worth_looking_for_cuda()) return "cpu";
    return train::cuda_state() == train::cuda_usable ? "cuda" : "cpu";
}

train::PlannedMachine machine_of(const Arguments& arguments, const config::JobSpec& spec) {
    train::PlannedMachine machine;
    machine.device = spec.run.device == "auto" ? device_here() : spec.run.device;
    const std::int64_t ranks = spec.parallel.tp * spec.parallel.pp * spec.parallel.dp;
    const std::int64_t together =
        machine.device == "cpu" ? ranks : std::min<std::int64_t>(ranks, gpus_per_node);
    machine.ranks_per_node = static_cast<int>(arguments.ranks_per_node ? arguments.ranks_per_node : together);
    machine.threads = std::max(1, allowed_cores() / machine.ranks_per_node);
    return machine;
}

std::optional<MemoryLimit> limit_of(const Arguments& arguments, const train::PlannedMachine& machine) {
    if (arguments.memory_gib)
        return MemoryLimit{static_cast<std::int64_t>(*arguments.memory_gib * (1 << 30)), "--memory"};
    if (machine.device != "cpu") return std::nullopt;
    return MemoryLimit{machine_memory_bytes() / machine.ranks_per_node,
                       fmt::format("this machine's, shared by {} rank{} a node", machine.ranks_per_node,
                                   machine.ranks_per_node == 1 ? "" : "s")};
}

std::string heading(const config::JobSpec& spec, const train::PlannedMachine& machine) {
    const config::ParallelConfig& grid = spec.parallel;
    const std::int64_t ranks = grid.tp * grid.pp * grid.dp;
    return fmt::format(
               "job        {} on {} rank{}, {} a node\n"
               "grid       tp {} x pp {} x dp {} (tp fastest, pp slowest)\n",
               spec.run.name, ranks, ranks == 1 ? "" : "s",
               std::min<std::int64_t>(ranks, machine.ranks_per_node), grid.tp, grid.pp, grid.dp) +
           "model      " + config::model_text(spec.model) + "\n" +
           fmt::format(
               "batch      global_batch {} = micro_batch {} x micro_batches {} x dp {}; {} tokens each\n",
               spec.train.global_batch, spec.train.micro_batch, spec.micro_batches(), grid.dp,
               spec.train.seq_len);
}

std::string drawing(const train::PlannedJob& job) {
    const schedule::Schedule& schedule = job.programs().schedule;
    const schedule::Timeline timeline =
        schedule::simulate(schedule, job.programs().training, train::predicted_durations(job.spec()));
    const std::string line = fmt::format("schedule   {}, idle {} by FLOPs, without communication\n",
                                         train::schedule_text(job.spec()), percent(timeline.idle_share));
    const std::string drawn = schedule::staircase(schedule, timeline);
    const bool fits = std::count(drawn.begin(), drawn.end(), '\n') <= most_drawn_lines;
    return line + (fits ? drawn : "It fills more than a page: escalier schedule draws it.\n");
}

int run(const Arguments& arguments) {
    const config::Job loaded = load(arguments);
    const train::PlannedMachine machine = machine_of(arguments, loaded.spec);
    const train::PlannedJob job(loaded.spec, machine);
    const PlannedMemory memory = plan_memory(job, limit_of(arguments, machine), arguments.all_ranks);
    if (arguments.json) {
        const config::JobSpec& spec = job.spec();
        const nlohmann::ordered_json page = {
            {"job", spec.run.name},
            {"grid", {{"tp", spec.parallel.tp}, {"pp", spec.parallel.pp}, {"dp", spec.parallel.dp}}},
            {"ranks_per_node", machine.ranks_per_node},
            {"device", spec.run.device},
            {"dtype", spec.train.dtype},
            {"micro_batch", spec.train.micro_batch},
            {"micro_batches", spec.micro_batches()},
            {"memory", memory_json(job, memory)}};
        std::cout << page.dump(2) << "\n";
        return 0;
    }
    std::cout << heading(job.spec(), machine) << "\n" << memory_page(job, memory) << "\n" << drawing(job);
    return 0;
}

}  // namespace

void add_plan_command(CLI::App& app, std::function<int()>& action) {
    auto arguments = std::make_shared<Arguments>();
    CLI::App* command = app.add_subcommand("plan", "what a job takes, rank by rank, without running it");
    command->add_option("job", arguments->job, "job spec, a YAML file")->required();
    command->add_option("-n,--ranks", arguments->ranks, "processes of the job (default: those of its grid)")
        ->check(whole_number(1, config::most_ranks));
    command
        ->add_option("--set", arguments->overrides,
                     "section.key=value, over the file; may be given several times")
        ->allow_extra_args(false);
    command
        ->add_option("--ranks-per-node", arguments->ranks_per_node,
                     "ranks that share a node (default: all of them, 8 with GPUs)")
        ->check(whole_number(1, config::most_ranks));
    command
        ->add_option("--memory", arguments->memory_gib,
                     "GiB that a rank may take: of its GPU, or of the host (default: this machine's, shared)")
        ->check(number_not_negative());
    command->add_flag("--all-ranks", arguments->all_ranks,
                      "a row for every rank instead of the fullest of each pipeline rank");
    command->add_flag("--json", arguments->json, "everything as JSON, in bytes");
    command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace escalier::apps
