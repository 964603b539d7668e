#include "plan_command.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "config/fields.h"
#include "config/model_facts.h"
#include "config/validate.h"
#include "core/machine_facts.h"
#include "core/text.h"
#include "core/write_target.h"
#include "device_here.h"
#include "number_options.h"
#include "plan/balance.h"
#include "plan_measure.h"
#include "plan_memory.h"
#include "plan_search.h"
#include "plan_time.h"
#include "schedule/render_text.h"
#include "schedule/simulate.h"
#include "schedule/svg.h"
#include "train/memory_oracle.h"
#include "train/schedule_rules.h"

namespace escalier::apps {

namespace {

constexpr int gpus_per_node = 8;
constexpr std::ptrdiff_t most_drawn_lines = 40;  // a page

struct Arguments {
    std::string job;
    std::vector<std::string> overrides;
    std::int64_t ranks = 0;           // 0: as many as the grid of the job spec
    std::int64_t ranks_per_node = 0;  // 0: as the machine that is named, else all, or gpus_per_node
    std::optional<double> memory_gib;
    bool all_ranks = false;
    bool json = false;
    bool search = false;
    std::string svg;  // path; empty: no picture
    TimeArguments time;
    MeasureArguments measure;
};

std::int64_t ranks_of(const Arguments& arguments, const config::JobFile& file) {
    if (arguments.ranks > 0) return arguments.ranks;
    const config::ParallelConfig grid = config::load(file, arguments.overrides).spec.parallel;
    return grid.tp * grid.pp * std::max<std::int64_t>(1, grid.dp);
}

// Where run.device is auto, a machine that the user names decides.
std::string device_of(const Arguments& arguments, const config::JobSpec& spec) {
    if (spec.run.device != "auto") return spec.run.device;
    if (!arguments.time.names_machine()) return device_here();
    return read_time_source(arguments.time, "cpu").hardware.is_gpu() ? "cuda" : "cpu";
}

config::Job load(const Arguments& arguments) {
    const config::JobFile file = config::read_job_file(arguments.job);
    const std::int64_t ranks = ranks_of(arguments, file);
    std::vector<std::string> overrides = arguments.overrides;
    if (arguments.time.names_machine()) {
        // Memory that rules look at (train.recompute: auto) is then that machine's too.
        const config::JobSpec asked = config::load(file, overrides).spec;
        if (asked.run.device == "auto") overrides.push_back("run.device=" + device_of(arguments, asked));
    }
    return config::load_resolved(file, overrides, ranks, config::process_environment(),
                                 train::schedule_rules());
}

train::PlannedMachine machine_of(const Arguments& arguments, const config::JobSpec& spec,
                                 const std::string& device, const plan::Hardware& hardware) {
    train::PlannedMachine machine;
    machine.device = device;
    const std::int64_t ranks = spec.parallel.tp * spec.parallel.pp * spec.parallel.dp;
    const std::int64_t node = arguments.time.names_machine() ? hardware.node.gpus
                              : device == "cpu"              ? ranks
                                                             : gpus_per_node;
    machine.ranks_per_node =
        static_cast<int>(arguments.ranks_per_node ? arguments.ranks_per_node : std::min(ranks, node));
    machine.threads = std::max(1, allowed_cores() / machine.ranks_per_node);
    return machine;
}

std::optional<MemoryLimit> limit_of(const Arguments& arguments, const train::PlannedMachine& machine,
                                    const TimeSource& source) {
    if (arguments.memory_gib)
        return MemoryLimit{static_cast<std::int64_t>(*arguments.memory_gib * (1 << 30)), "--memory"};
    if (arguments.time.names_machine())
        return MemoryLimit{static_cast<std::int64_t>(source.hardware.usable_bytes()),
                           "what " + source.hardware.name + " has for a rank"};
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

std::string drawing(const train::PlannedJob& job, const schedule::Timeline& timeline) {
    const schedule::Schedule& schedule = job.programs().schedule;
    const std::string line = fmt::format("schedule   {}, idle {} of the pipeline's time\n",
                                         train::schedule_text(job.spec()), percent(timeline.idle_share));
    const std::string drawn = schedule::staircase(schedule, timeline);
    const bool fits = std::count(drawn.begin(), drawn.end(), '\n') <= most_drawn_lines;
    return line + (fits ? drawn : "It fills more than a page: escalier schedule draws it.\n");
}

void draw_svg(const std::string& path, const train::PlannedJob& job, const TimeSource& source,
              const schedule::Timeline& timeline) {
    std::ofstream out(write_target(path));
    out << schedule::to_svg(job.programs().schedule, timeline, source.text(job.spec()));
    out.close();
    if (!out)
        throw IoError::write("--svg " + path + ": cannot be written; give a path in a folder that is there");
}

// Bytes of the fullest rank: to the byte where that may decide.
class SearchMemory {
 public:
    SearchMemory(const train::PlannedMachine& machine, double limit)
        : machine_(machine), limit_(limit), oracle_(machine) {}

    double operator()(const config::JobSpec& job, const schedule::Schedule& schedule) {
        constexpr double near = 0.05;
        const std::vector<std::int64_t> each = oracle_.bytes(job, schedule);
        const auto quick = static_cast<double>(*std::max_element(each.begin(), each.end()));
        return std::abs(quick / limit_ - 1) < near ? exact(job) : quick;
    }
    double exact(const config::JobSpec& job) const {
        std::int64_t most = 0;
        for (const train::RankMemory& rank : train::PlannedJob(job, machine_).fullest_ranks())
            most = std::max(most, rank.total());
        return static_cast<double>(most);
    }

 private:
    const train::PlannedMachine machine_;
    const double limit_;
    train::MemoryOracle oracle_;
};

void refuse_search(const config::JobSpec& spec, const TimeSource& source) {
    if (spec.model.num_layers > plan::most_balanced_layers)
        throw ConfigError(fmt::format(
            "--search: found model.num_layers {}, and layouts are looked for of at most {} layers; plan "
            "without it",
            spec.model.num_layers, plan::most_balanced_layers));
    if (source.profile)
        throw ConfigError(
            "--profile: found " + source.profile_path +
            " beside --search, which looks through shapes that nobody measured; give --gpu or --hardware");
    if (source.set(spec))
        throw ConfigError(
            "--search: found run.clock sleep, where run.layer_ms alone says how long actions last; give "
            "--gpu "
            "or --hardware to search by what a machine can do");
}

int search(const Arguments& arguments, const config::JobSpec& spec, const train::PlannedMachine& machine,
           const TimeSource& source) {
    refuse_search(spec, source);
    const std::optional<MemoryLimit> limit = limit_of(arguments, machine, source);
    plan::SearchProblem problem;
    problem.spec = train::settled_on(spec, machine);
    problem.ranks = spec.parallel.tp * spec.parallel.pp * spec.parallel.dp;
    problem.hardware = source.hardware;
    problem.memory_limit = limit ? static_cast<double>(limit->bytes) : source.hardware.usable_bytes();
    SearchMemory memory(machine, problem.memory_limit);
    problem.memory = std::ref(memory);
    SearchPage page = run_search(problem);
    for (plan::Found& found : page.result.best) found.bytes = memory.exact(found.spec);
    page.own_bytes = memory.exact(page.own_spec);
    if (arguments.json)
        std::cout
            << nlohmann::ordered_json{{"job", spec.run.name}, {"search", search_json(page, problem)}}.dump(2)
            << "\n";
    else
        std::cout << heading(problem.spec, machine) << "\n" << search_page(page, problem);
    return 0;
}

int run(const Arguments& arguments) {
    if (arguments.measure.measure)
        return run_measure(arguments.measure, arguments.job, arguments.overrides,
                           ranks_of(arguments, config::read_job_file(arguments.job)));
    const config::Job loaded = load(arguments);
    const std::string device = device_of(arguments, loaded.spec);
    TimeSource source = read_time_source(arguments.time, device);
    const train::PlannedMachine machine = machine_of(arguments, loaded.spec, device, source.hardware);
    source.hardware.node.gpus = machine.ranks_per_node;  // links are those of this node
    if (arguments.search) return search(arguments, loaded.spec, machine, source);
    const train::PlannedJob job(loaded.spec, machine);
    const PlannedMemory memory = plan_memory(job, limit_of(arguments, machine, source), arguments.all_ranks);
    const PlannedTime time = plan_time(source, job.spec(), job.programs().schedule, job.programs().training);
    if (!arguments.svg.empty()) draw_svg(arguments.svg, job, source, time.prediction.timeline);
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
            {"memory", memory_json(job, memory)},
            {"time", time_json(source, spec, time)}};
        std::cout << page.dump(2) << "\n";
        return 0;
    }
    std::cout << heading(job.spec(), machine) << "\n"
              << memory_page(job, memory) << "\n"
              << time_page(source, job.spec(), time) << "\n"
              << drawing(job, time.prediction.timeline);
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
    CLI::Option* measure = command->add_flag(
        "--measure", arguments->measure.measure,
        "measure the parts of the model on this machine instead; under mpirun on all its ranks at once");
    command->add_option("--out", arguments->measure.out, "where --measure writes the profile")
        ->capture_default_str()
        ->needs(measure);
    command->add_option("--repeats", arguments->measure.repeats, "of --measure, which takes medians")
        ->check(whole_number(1, 1000))
        ->capture_default_str()
        ->needs(measure);
    command
        ->add_option("--ranks-per-node", arguments->ranks_per_node,
                     "ranks that share a node (default: those of --gpu or --hardware, else all, 8 with GPUs)")
        ->check(whole_number(1, config::most_ranks))
        ->excludes(measure);
    command
        ->add_option("--memory", arguments->memory_gib,
                     "GiB that a rank may take: of its GPU, or of the host (default: this machine's, shared)")
        ->check(number_not_negative(plan::most_memory_gib))
        ->excludes(measure);
    command->add_flag("--json", arguments->json, "everything as JSON, in bytes")->excludes(measure);
    CLI::Option* search =
        command
            ->add_flag("--search", arguments->search,
                       "look through every grid, schedule, micro-batch, recompute and layout for the fastest")
            ->excludes(measure);
    command
        ->add_flag("--all-ranks", arguments->all_ranks,
                   "a row for every rank instead of the fullest of each pipeline rank")
        ->excludes(measure)
        ->excludes(search);
    command->add_option("--svg", arguments->svg, "draw the predicted step into this file")
        ->excludes(measure)
        ->excludes(search);
    add_time_options(*command, arguments->time, measure);
    command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace escalier::apps
