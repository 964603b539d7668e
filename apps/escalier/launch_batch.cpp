#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>

#include "config/dump.h"
#include "config/load.h"
#include "config/validate.h"
#include "core/error.h"
#include "core/text.h"
#include "launch/batch_file.h"
#include "launch_arguments.h"
#include "launch_facts.h"
#include "sweep/expand.h"
#include "train/schedule_rules.h"
#include "train/start_point.h"

namespace escalier::apps {

namespace {

// "a=1; b=2" -> both
std::vector<std::string> assignments(const std::string& point) {
    std::vector<std::string> found;
    std::istringstream parts(point);
    for (std::string part; std::getline(parts, part, ';');) {
        const std::size_t from = part.find_first_not_of(' ');
        if (from == std::string::npos) continue;
        found.push_back(part.substr(from, part.find_last_not_of(' ') + 1 - from));
    }
    if (found.empty()) throw ConfigError("--point: found nothing, wanted key=value, more of them behind ';'");
    return found;
}

bool sets(const std::vector<std::string>& overrides, const std::string& key) {
    return std::any_of(overrides.begin(), overrides.end(),
                       [&](const std::string& assignment) { return assignment.starts_with(key + "="); });
}

// One line, as a directive of a batch file must be.
void require_line(const std::string& option, const std::string& text) {
    if (std::all_of(text.begin(), text.end(), [](unsigned char c) { return c >= ' ' && c != 127; })) return;
    throw ConfigError(option + ": found " + shortened(text) + ", wanted one line of plain text");
}

// As Slurm shows it and names the output file by it.
std::string queue_name(std::string name) {
    for (char& c : name)
        if (!std::isalnum(static_cast<unsigned char>(c)) && std::string("._-").find(c) == std::string::npos)
            c = '_';
    return name;
}

// What plan.tasks need in nodes.
void lay_out(launch::BatchPlan& plan, const LaunchArguments& arguments, const config::JobSpec& job) {
    const std::int64_t gpus = arguments.gpus_per_node;
    plan.nodes = arguments.nodes.value_or(gpus > 0 ? (plan.tasks + gpus - 1) / gpus : 1);
    const std::string ranks = std::to_string(plan.tasks) + (plan.tasks == 1 ? " rank" : " ranks");
    if (plan.tasks % plan.nodes != 0)
        throw ConfigError("--nodes: " + ranks + " do not divide over " + std::to_string(plan.nodes) +
                          " nodes; change --nodes, -n or parallel.dp");
    const std::int64_t per_node = plan.tasks / plan.nodes;
    if (gpus > 0 && per_node > gpus && !job.run.share_gpu)
        throw ConfigError("--gpus-per-node: a node has " + std::to_string(gpus) + " GPUs for " +
                          std::to_string(per_node) + " ranks; raise --nodes to " +
                          std::to_string((plan.tasks + gpus - 1) / gpus) + ", or set run.share_gpu: true");
    if (plan.nodes > 1 && per_node % job.parallel.tp != 0)
        std::cerr << "launch: " << per_node << " ranks on a node and parallel.tp " << job.parallel.tp
                  << ": tensor groups span nodes, and their sums cross the network in every layer\n";
}

launch::Room room_of_nodes(const LaunchArguments& arguments) {
    const std::int64_t nodes = arguments.nodes.value_or(1);
    if (arguments.gpus_per_node > 0)
        return {nodes * arguments.gpus_per_node, std::to_string(nodes * arguments.gpus_per_node) +
                                                     " GPUs of --nodes " + std::to_string(nodes)};
    return {1, "1 task, for nothing says how many (-n, or --nodes and --gpus-per-node)"};
}

// --resume among train's words, which goes from there.
std::optional<std::string> take_resume(std::vector<std::string>& words) {
    const std::string option = "--resume";
    for (auto word = words.begin(); word != words.end(); ++word) {
        if (word->starts_with(option + "=")) {
            const std::string value = word->substr(option.size() + 1);
            words.erase(word);
            return value;
        }
        if (*word == option && word + 1 != words.end()) {
            const std::string value = *(word + 1);
            words.erase(word, word + 2);
            return value;
        }
    }
    return std::nullopt;
}

// The job is started anew each time that it comes out of the queue, and is to go on each time.
void require_to_go_on(const config::JobSpec& job) {
    if (!train::names_own_step(job)) return;
    throw ConfigError(
        "--slurm: checkpoint.resume (--resume) is " + job.checkpoint.resume +
        ", a step of this very run; a job that comes back into the queue goes on from the run's "
        "newest checkpoint instead. To go on from that step, give the new run a name of its own: "
        "--set run.name=NAME");
}

// The array of the job, or its one run.
void add_points(launch::BatchPlan& plan, LaunchArguments arguments, const config::JobFile& file,
                const std::string& run_name) {
    const std::optional<std::string> begin = take_resume(arguments.train);
    if (begin == "none")
        throw ConfigError(
            "--slurm: --resume none would begin anew each time that the job comes out of the queue; leave it "
            "out, and give a new run a name of its own: --set run.name=NAME");
    std::string origin;  // an assignment
    if (begin && *begin != "auto") {
        std::string value = *begin;
        origin = "checkpoint.resume=" + config::yaml_text(config::TextField{&value, {}});
    }
    const auto add = [&](std::vector<std::string> overrides) {
        if (!origin.empty()) overrides.push_back(origin);
        require_to_go_on(config::load(file, overrides).spec);
        const launch::Ranks ranks = ranks_of(arguments, file, overrides, room_of_nodes(arguments));
        if (!ranks.note.empty()) std::cerr << "launch: " << ranks.note << "\n";
        plan.points.push_back({ranks.count, train_words(arguments, overrides, {"--resume", "auto"})});
        plan.tasks = std::max(plan.tasks, ranks.count);
    };
    for (std::size_t i = 0; i < arguments.points.size(); ++i) {
        std::vector<std::string> overrides = arguments.overrides;
        const std::vector<std::string> own = assignments(arguments.points[i]);
        overrides.insert(overrides.end(), own.begin(), own.end());
        if (!sets(own, "run.name")) overrides.push_back("run.name=" + run_name + "-" + std::to_string(i));
        add(overrides);
    }
    if (plan.points.empty()) add(arguments.overrides);
}

// `sweep run` starts the ranks of a point, resumes it and knows which are done.
void add_sweep(launch::BatchPlan& plan, const LaunchArguments& arguments, const config::JobFile& file) {
    if (!arguments.train.empty())
        throw ConfigError(
            "--sweep: each element is escalier sweep run, which takes nothing of what stands behind --");
    if (arguments.starter != "auto")
        throw ConfigError(
            "--sweep: each element is escalier sweep run, which takes srun where it has pmix, else mpirun; "
            "leave "
            "--starter out");
    const sweep::Sweep sweep = sweep::expand(
        {file, arguments.overrides, arguments.ranks, config::process_environment(), train::schedule_rules()});
    for (const sweep::Point& point : sweep.points) {
        if (!point.possible()) continue;
        config::require_data(*point.spec);
        plan.tasks = std::max(plan.tasks, point.ranks);
    }
    plan.elements = sweep.count();
    if (plan.elements == 0)
        throw ConfigError("no point of the sweep of " + sweep.job + " can be; see escalier sweep list " +
                          sweep.job);
    plan.element = {program_of(arguments), "sweep", "run", arguments.job};
    for (const std::string& assignment : arguments.overrides)
        plan.element.insert(plan.element.end(), {"--set", assignment});
    if (arguments.ranks) plan.element.insert(plan.element.end(), {"-n", std::to_string(*arguments.ranks)});
}

}  // namespace

int write_batch(const LaunchArguments& arguments) {
    if (!arguments.hosts.empty() || !arguments.hostfile.empty() || !arguments.agent.empty())
        throw ConfigError(
            "--slurm: the hosts are Slurm's to choose; leave --hosts, --hostfile and --agent out");
    if (!arguments.time.empty()) launch::check_time_limit(arguments.time);
    const config::JobFile file = config::read_job_file(arguments.job);
    const config::JobSpec job = config::load(file, arguments.overrides).spec;
    launch::BatchPlan plan;
    plan.name = queue_name(job.run.name);
    plan.starter = arguments.starter == "mpirun" ? launch::Starter::mpirun : launch::Starter::srun;
    plan.cpus_per_task = arguments.cpus_per_task;
    plan.gpus_per_node = arguments.gpus_per_node;
    plan.time = arguments.time;
    plan.signal_seconds = arguments.signal_seconds;
    plan.partition = arguments.partition;
    plan.account = arguments.account;
    plan.directives = arguments.directives;
    plan.most_at_once = arguments.most_at_once;
    require_line("--partition", plan.partition);
    require_line("--account", plan.account);
    for (const std::string& directive : plan.directives) require_line("--sbatch", directive);
    if (arguments.sweep)
        add_sweep(plan, arguments, file);
    else
        add_points(plan, arguments, file, job.run.name);
    if (plan.most_at_once > 0 && !plan.is_array())
        throw ConfigError(
            "--at-most is for a job array; give its points, two at least, with --point, or --sweep");
    lay_out(plan, arguments, job);
    plan.written_by = own_command_line();
    for (char& c : plan.written_by)
        if (static_cast<unsigned char>(c) < ' ') c = ' ';
    const std::string text = launch::batch_file(plan);
    if (arguments.print) {
        std::cout << text;
        return 0;
    }
    std::ofstream out(arguments.batch_file);
    if (!(out << text) || !out.flush())
        throw IoError::write("--slurm " + arguments.batch_file +
                             ": it cannot be written; name a file in a "
                             "folder that is there");
    std::cerr << "launch: wrote " << arguments.batch_file << "; submit it with sbatch "
              << arguments.batch_file << "\n";
    return 0;
}

}  // namespace escalier::apps
