#include "sweep_command.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/fields.h"
#include "config/validate.h"
#include "core/error.h"
#include "number_options.h"
#include "schedule/prove.h"
#include "sweep/expand.h"
#include "sweep/plots.h"
#include "sweep/run_points.h"
#include "sweep/table.h"
#include "sweep_launch.h"
#include "sweep_predict.h"
#include "text_table.h"
#include "train/schedule_rules.h"

namespace escalier::apps {

namespace {

struct SweepArguments {
    std::string job;
    std::vector<std::string> overrides;
    std::optional<std::int64_t> ranks;
    // run
    std::optional<std::int64_t> index;
    std::vector<std::string> only;
    int jobs = 1;
    // table
    std::string hardware, profile;
};

sweep::Sweep expand(const SweepArguments& arguments) {
    return sweep::expand({config::read_job_file(arguments.job), arguments.overrides, arguments.ranks,
                          config::process_environment(), train::schedule_rules()});
}

int list(const SweepArguments& arguments) {
    const sweep::Sweep sweep = expand(arguments);
    std::vector<Row> rows = {{"index", "ranks", "name"}};
    for (const sweep::Point& point : sweep.points)
        if (point.possible())
            rows.push_back({std::to_string(point.index), std::to_string(point.ranks), point.name});
    if (rows.size() > 1) std::cout << text_table(rows);
    const std::int64_t impossible = static_cast<std::int64_t>(sweep.points.size()) - sweep.count();
    if (impossible > 0)
        std::cout << impossible << (impossible == 1 ? " point" : " points") << " cannot be:\n";
    for (const sweep::Point& point : sweep.points)
        if (!point.possible()) std::cout << "  " << point.name << ": " << point.reason << "\n";
    return 0;
}

int count(const SweepArguments& arguments) {
    std::cout << expand(arguments).count() << "\n";
    return 0;
}

// "3", a point's name, or "parallel.pp=2"
bool is_meant(const sweep::Point& point, const std::string& wanted) {
    if (wanted == point.name || (point.possible() && wanted == std::to_string(point.index))) return true;
    return std::any_of(
        point.settings.begin(), point.settings.end(),
        [&](const config::SweepSetting& setting) { return setting.key + "=" + setting.value == wanted; });
}

std::vector<const sweep::Point*> chosen_points(const sweep::Sweep& sweep, const SweepArguments& arguments) {
    std::vector<std::string> wanted = arguments.only;
    if (arguments.index) wanted = {std::to_string(*arguments.index)};
    for (const std::string& each : wanted) {
        const auto meant = [&](const sweep::Point& point) { return is_meant(point, each); };
        const auto found = std::find_if(sweep.points.begin(), sweep.points.end(), meant);
        if (found == sweep.points.end())
            throw ConfigError(fmt::format("{}: found {}, wanted {}; see escalier sweep list {}",
                                          arguments.index ? "--index" : "--only", each,
                                          arguments.index
                                              ? fmt::format("an index from 0 to {}", sweep.count() - 1)
                                              : "a point's index or name, or key=value of an axis",
                                          sweep.job));
        if (!found->possible() && found->name == each)
            throw ConfigError("--only: point " + each + " cannot be: " + found->reason);
    }
    std::vector<const sweep::Point*> points;
    for (const sweep::Point& point : sweep.points) {
        const auto asked = [&](const std::string& each) { return is_meant(point, each); };
        if (point.possible() && (wanted.empty() || std::any_of(wanted.begin(), wanted.end(), asked)))
            points.push_back(&point);
    }
    if (points.empty())
        throw ConfigError("no point of the sweep of " + sweep.job + " can be; see escalier sweep list " +
                          sweep.job);
    return points;
}

int run(const SweepArguments& arguments) {
    const sweep::Sweep sweep = expand(arguments);
    sweep::RunRequest request;
    request.points = chosen_points(sweep, arguments);
    request.jobs = arguments.jobs;
    request.command = [&](const sweep::Point& point, const std::vector<std::string>& words) {
        return point_command(point, words, arguments.jobs);
    };
    request.say = [](const std::string& line) { std::cout << line << std::endl; };
    for (const sweep::Point* point : request.points) config::require_data(*point->spec);
    const sweep::SweepFolder folder(sweep.folder);
    folder.create();
    std::optional<sweep::SweepLock> lock;
    if (arguments.index)
        lock.emplace(folder, request.points.front()->name);
    else
        lock.emplace(folder);
    request.say(fmt::format("sweep  {} of {} points, into {}", request.points.size(), sweep.points.size(),
                            folder.path()));
    const sweep::RunSummary summary = run_points(sweep, folder, request);
    request.say(fmt::format("sweep  {} done, {} failed, {} unfinished; escalier sweep table {} shows them",
                            summary.done, summary.failed, summary.unfinished, sweep.job));
    return summary.exit_code();
}

// Whether its results are those of any other schedule, to the bit.
bool has_exact_schedule(const config::JobSpec& spec) {
    return schedule::prove(train::make_schedule(spec)).exact;
}

int table(const SweepArguments& arguments) {
    const sweep::Sweep sweep = expand(arguments);
    const sweep::SweepFolder folder(sweep.folder);
    const std::vector<sweep::Row> rows =
        collect(sweep, folder, {step_predictor(arguments.hardware, arguments.profile), has_exact_schedule});
    const std::string markdown = to_markdown(sweep, rows);
    std::cout << markdown;
    if (std::all_of(rows.begin(), rows.end(),
                    [](const sweep::Row& row) { return row.status != sweep::Status::done; })) {
        std::cout << "\nno point is done yet; escalier sweep run " << sweep.job << "\n";
        return 0;
    }
    folder.create();
    std::string files = folder.file("table.csv") + ", table.md";
    folder.write(folder.file("table.csv"), to_csv(sweep, rows));
    folder.write(folder.file("table.md"), markdown);
    for (const sweep::Plot& plot : plots(sweep, rows)) {
        folder.write(folder.file(plot.file), plot.svg);
        files += ", " + plot.file;
    }
    std::cout << "\nwritten: " << files << "\n";
    const auto differs = [](const sweep::Row& row) {
        return row.losses.agreement == sweep::Agreement::differs;
    };
    const auto wrong = std::count_if(rows.begin(), rows.end(), differs);
    if (wrong == 0) return 0;
    throw NumericError(
        fmt::format("the losses of {} differ from those that they must equal; see the column losses",
                    wrong == 1 ? "a point" : fmt::format("{} points", wrong)));
}

using Action = int (*)(const SweepArguments&);

CLI::App* add(CLI::App& sweep, const char* name, const char* help, Action what,
              const std::shared_ptr<SweepArguments>& arguments, std::function<int()>& action) {
    CLI::App* command = sweep.add_subcommand(name, help);
    command->add_option("job", arguments->job, "Job spec with a sweep section (YAML)")->required();
    command
        ->add_option("-n,--ranks", arguments->ranks,
                     "Processes of every point; otherwise the axis ranks, or what its grid needs")
        ->check(whole_number(1, config::most_ranks));
    command
        ->add_option("--set", arguments->overrides,
                     "Override a key of all points: --set train.steps=10 (YAML value)")
        ->allow_extra_args(false);
    command->callback(
        [arguments, what, &action] { action = [arguments, what] { return what(*arguments); }; });
    return command;
}

}  // namespace

void add_sweep_command(CLI::App& app, std::function<int()>& action) {
    auto arguments = std::make_shared<SweepArguments>();
    CLI::App* sweep = app.add_subcommand("sweep", "Run a job in many variants and compare them");
    sweep->require_subcommand(1);
    add(*sweep, "list", "Show the points, and why others cannot be", list, arguments, action);
    add(*sweep, "count", "Print how many points there are, for a job array", count, arguments, action);
    CLI::App* table_command =
        add(*sweep, "table", "Write a table and plots of what the runs came to", table, arguments, action);
    CLI::Option* profile = table_command->add_option(
        "--profile", arguments->profile, "Predict steps by a profile that escalier plan --measure wrote");
    table_command
        ->add_option("--gpu", arguments->hardware,
                     "Predict steps for this hardware; otherwise cpu, by its file")
        ->excludes(profile);
    CLI::App* run_command =
        add(*sweep, "run", "Run the points that are not done yet", run, arguments, action);
    CLI::Option* only =
        run_command
            ->add_option("--only", arguments->only,
                         "Points by index, by name or by key=value of an axis; may be given several times")
            ->allow_extra_args(false);
    run_command
        ->add_option("--index", arguments->index, "One point alone, in a job array: $SLURM_ARRAY_TASK_ID")
        ->check(whole_number(0, config::most_sweep_points))
        ->excludes(only);
    run_command->add_option("--jobs", arguments->jobs, "Points that run at the same time")
        ->check(whole_number(1, 1024));
}

}  // namespace escalier::apps
