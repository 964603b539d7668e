#include "verify_command.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collective.h"
#include "config/validate.h"
#include "job_everywhere.h"
#include "number_options.h"
#include "text_table.h"
#include "train/schedule_rules.h"
#include "train/trainer.h"
#include "train/training_data.h"
#include "train/verify.h"

namespace escalier::apps {

namespace {

struct VerifyArguments {
    std::string job;
    std::vector<std::string> overrides;
    std::vector<std::string> grids;
    std::string schedule;  // of both; empty: as the job says
    train::VerifyOptions options;
};

// What a grid may say, and the key it stands for.
const std::map<std::string, std::string> grid_keys = {{"tp", "parallel.tp"},
                                                      {"pp", "parallel.pp"},
                                                      {"dp", "parallel.dp"},
                                                      {"schedule", "pipeline.schedule"},
                                                      {"chunks", "pipeline.chunks"},
                                                      {"group", "pipeline.group"},
                                                      {"backward", "pipeline.backward"},
                                                      {"layout", "pipeline.layout"},
                                                      {"file", "pipeline.file"},
                                                      {"recompute", "train.recompute"},
                                                      {"micro_batch", "train.micro_batch"}};

std::string known_keys() {
    std::string text;
    for (const auto& [name, key] : grid_keys) text += (text.empty() ? "" : ", ") + name;
    return text;
}

// Cut at commas outside brackets and braces.
std::vector<std::string> settings_of(const std::string& grid) {
    std::vector<std::string> out = {""};
    int depth = 0;
    for (const char c : grid) {
        if (c == '[' || c == '{') ++depth;
        if (c == ']' || c == '}') --depth;
        if (c == ',' && depth == 0)
            out.emplace_back();
        else
            out.back() += c;
    }
    return out;
}

// "tp=2,pp=2,schedule=zb-h1" as overrides of the job spec; sizes that it leaves out are 1.
std::vector<std::string> overrides_of(const std::string& grid, const VerifyArguments& arguments) {
    std::map<std::string, std::string> values = {
        {"parallel.tp", "1"}, {"parallel.pp", "1"}, {"parallel.dp", "1"}};
    std::map<std::string, bool> seen;
    if (!arguments.schedule.empty()) values["pipeline.schedule"] = arguments.schedule;
    for (const std::string& setting : settings_of(grid)) {
        const std::size_t equals = setting.find('=');
        const std::string name = setting.substr(0, equals);
        const auto key = grid_keys.find(name);
        if (equals == std::string::npos || key == grid_keys.end())
            throw ConfigError("--grid " + grid + ": found \"" + setting +
                              "\", wanted KEY=VALUE with a key out of " + known_keys() +
                              ", such as tp=2,pp=2,dp=1; other keys of the job go to --set");
        if (seen[name]) throw ConfigError("--grid " + grid + ": " + name + " is there twice; give it once");
        seen[name] = true;
        values[key->second] = setting.substr(equals + 1);
    }
    std::vector<std::string> out = arguments.overrides;
    for (const auto& [key, value] : values) out.push_back(key + "=" + value);
    return out;
}

config::Job load(const VerifyArguments& arguments, const std::string& grid) {
    const config::JobFile file = config::read_job_file(arguments.job);
    const std::vector<std::string> overrides = overrides_of(grid, arguments);
    try {
        config::Job job = config::load(file, overrides);
        job.spec.sweep = {};
        config::require_data(job.spec);
        const config::ParallelConfig& sizes = job.spec.parallel;
        return config::resolve(job, sizes.tp * sizes.pp * sizes.dp, train::schedule_rules());
    } catch (const ConfigError& error) {
        const std::string text = error.what();
        // What speaks of no key that the grid sets is not the grid's fault.
        if (std::none_of(overrides.begin() + static_cast<std::ptrdiff_t>(arguments.overrides.size()),
                         overrides.end(), [&](const std::string& setting) {
                             return text.find(setting.substr(0, setting.find('='))) != std::string::npos;
                         }))
            throw;
        throw ConfigError("--grid " + grid + ": " + text);
    }
}

std::string layers_text(const config::JobSpec& spec) {
    std::string text;
    for (const std::int64_t layers : spec.pipeline.layers_per_stage)
        text += (text.empty() ? "" : " ") + std::to_string(layers);
    return text;
}

void print_head(const VerifyArguments& arguments, const std::array<config::JobSpec, 2>& specs, bool bits) {
    for (std::size_t side = 0; side < 2; ++side) {
        const config::JobSpec& spec = specs[side];
        std::cout << fmt::format("{}         {}: {}, layers {}, {} micro-batches of {}\n",
                                 train::side_name(side), arguments.grids[side], train::schedule_text(spec),
                                 layers_text(spec), spec.micro_batches(), spec.train.micro_batch);
    }
    std::cout
        << (bits ? "demanded  equal to the bit\n"
                 : "demanded  equal up to rounding (the grids cut sums differently); copies within a grid "
                   "equal to the bit\n");
}

std::string ratio_text(double ratio) {
    if (ratio <= 0) return "0";
    return ratio < 1000 ? fmt::format("{:.2g}", ratio) : fmt::format("{:.1e}", ratio);
}

void print_rows(const std::vector<train::VerifyRow>& rows) {
    std::vector<Row> table = {
        {"step", "what", "tensors", "differ", "max |A-B|", "rounding", "ratio", "where it is furthest out"}};
    for (const train::VerifyRow& row : rows)
        table.push_back({row.step == 0 ? "start" : std::to_string(row.step), row.what,
                         std::to_string(row.tensors), std::to_string(row.differing),
                         fmt::format("{:.2e}", row.difference), fmt::format("{:.2e}", row.allowed),
                         ratio_text(row.ratio), row.worst});
    std::cout << text_table(table);
}

void print(const train::VerifyResult& result, std::int64_t steps) {
    print_rows(result.rows);
    if (result.equal) {
        std::cout << fmt::format("equal     {} steps\n", steps);
        return;
    }
    std::cout << fmt::format(
        "DIFFERENT {}, first in order of computation: {}\n",
        result.step == 0 ? "before the first step" : fmt::format("in step {}", result.step), result.first);
    for (const std::string& note : result.experiments) std::cout << "tried     " << note << '\n';
    std::cout << "diagnosis " << result.diagnosis.cause << ". " << result.diagnosis.text << '\n';
}

int run(const VerifyArguments& arguments) {
    comm::MpiEnv env(nullptr, nullptr);
    return run_collective(env, [&] {
        std::array<config::JobSpec, 2> specs;
        for (std::size_t side = 0; side < 2; ++side)
            specs[side] =
                load_everywhere(env, arguments.job, [&] { return load(arguments, arguments.grids[side]); });
        env.start_watchdog(static_cast<double>(specs[0].run.comm_timeout_s));
        train::VerifyOptions options = arguments.options;
        for (train::AssemblyOptions& side : options.sides)
            side.threads = train::compute_threads(specs[0].run, env.place());
        train::TrainingData data;
        env.agree([&] {
            train::require_comparable(specs, env.world().size(), options.steps);
            config::JobSpec spec = specs[0];
            spec.eval.every = 0;
            data = train::open_data(spec);
        });
        if (env.world().rank() == 0) {
            print_head(arguments, specs, train::promises_bits(specs[0], specs[1]));
            std::cout.flush();
        }
        const train::VerifyResult result = train::verify(specs, env, *data.train, options);
        if (env.world().rank() == 0) print(result, options.steps);
        return result.equal ? 0 : static_cast<int>(ExitCode::failed);
    });
}

}  // namespace

void add_verify_command(CLI::App& app, std::function<int()>& action) {
    auto arguments = std::make_shared<VerifyArguments>();
    CLI::App* command = app.add_subcommand(
        "verify",
        "Train a job on two grids and compare them tensor by tensor; ends with 1 if they differ, and says "
        "where "
        "and what is likely missing: mpirun -n N escalier verify JOB --grid tp=1 --grid tp=2,pp=2");
    command->add_option("job", arguments->job, "Job spec (YAML)")->required();
    command
        ->add_option("--grid", arguments->grids,
                     "One grid: KEY=VALUE,... with the keys " + known_keys() +
                         "; tp, pp and dp are 1 where not given. Twice")
        ->required()
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->delimiter('\0');
    command->add_option("--set", arguments->overrides, "Override a key of both: --set train.global_batch=8")
        ->allow_extra_args(false);
    command->add_option("--schedule", arguments->schedule, "Schedule of both, unless a grid names its own");
    command->add_option("--steps", arguments->options.steps, "Steps to compare")
        ->check(whole_number(1))
        ->capture_default_str();
    command->add_flag("--activations", arguments->options.activations,
                      "Compare the residual stream between layers too (takes memory for all of it)");
    command->callback([arguments, &action] {
        if (arguments->grids.size() != 2)
            throw CLI::ValidationError("--grid",
                                       fmt::format("found {} grids, wanted two to compare, such as --grid "
                                                   "tp=1 --grid tp=2,pp=2",
                                                   arguments->grids.size()));
        action = [arguments] { return run(*arguments); };
    });
}

}  // namespace escalier::apps
