#include "launch_command.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include "config/fields.h"
#include "config/validate.h"
#include "core/error.h"
#include "launch/command.h"
#include "launch_arguments.h"
#include "launch_facts.h"
#include "number_options.h"
#include "train/schedule_rules.h"
#include "train_command.h"

namespace escalier::apps {

namespace {

// What `train` itself would refuse about them, before N processes do.
void check_train_arguments(const std::vector<std::string>& arguments) {
    for (const std::string& argument : arguments)
        if (argument == "--set" || argument.starts_with("--set="))
            throw ConfigError("--set stands behind --; give it before, so that the ranks follow from it");
    CLI::App app("", "escalier");
    std::function<int()> ignored;
    add_train_command(app, ignored);
    std::vector<std::string> words(arguments.rbegin(), arguments.rend());
    words.insert(words.end(), {"JOB", "train"});
    try {
        app.parse(words);
    } catch (const CLI::CallForHelp&) {
        throw ConfigError("behind -- stands --help; see escalier train --help");
    } catch (const CLI::ParseError& error) {
        throw ConfigError(std::string("behind --: train: ") + error.what());
    }
}

std::vector<launch::Host> named_hosts(const LaunchArguments& arguments) {
    if (!arguments.hosts.empty()) return launch::parse_host_list(arguments.hosts);
    if (arguments.hostfile.empty()) return {};
    std::ifstream in(arguments.hostfile);
    std::ostringstream text;
    if (!in || !(text << in.rdbuf()))
        throw IoError::read("--hostfile " + arguments.hostfile + ": it cannot be read, or is empty");
    return launch::parse_host_file(text.str(), arguments.hostfile);
}

bool starts_with_srun(const LaunchArguments& arguments, bool in_allocation) {
    const bool named_hosts = !arguments.hosts.empty() || !arguments.hostfile.empty();
    if (arguments.starter == "srun") {
        if (!in_allocation)
            throw ConfigError(
                "--starter srun: this is no Slurm allocation (SLURM_JOB_ID is not set); get one with salloc, "
                "or write a batch file with --slurm FILE");
        if (named_hosts) throw ConfigError("--starter srun takes the hosts of the allocation, not --hosts");
        return true;
    }
    if (arguments.starter == "mpirun" || !in_allocation || named_hosts) return false;
    if (srun_offers_pmix()) return true;
    std::cerr << "launch: `srun --mpi=list` has no pmix here, so mpirun starts the ranks\n";
    return false;
}

int start(const LaunchArguments& arguments) {
    const std::vector<launch::Host> hosts = named_hosts(arguments);
    const launch::Machine machine = this_machine();
    const std::optional<launch::Allocation> allocation =
        launch::slurm_allocation(config::process_environment());
    const config::JobFile file = config::read_job_file(arguments.job);
    const config::JobSpec job = config::load(file, arguments.overrides).spec;
    const launch::Ranks ranks = ranks_of(arguments, file, arguments.overrides,
                                         launch::room_for_ranks(job.run, machine, hosts, allocation));
    if (!ranks.note.empty()) std::cerr << "launch: " << ranks.note << "\n";
    if (!hosts.empty() && launch::tensor_group_spans_hosts(hosts, job.parallel.tp, ranks.count))
        std::cerr << "launch: a host's ranks do not divide by parallel.tp " << job.parallel.tp
                  << ": a tensor group spans hosts\n";
    const std::vector<std::string> program = train_words(arguments, arguments.overrides);
    std::vector<std::string> command;
    if (starts_with_srun(arguments, allocation.has_value())) {
        command = launch::srun_command(launch::srun_plan(ranks.count, *allocation), program);
    } else {
        launch::MpirunPlan plan;
        plan.ranks = ranks.count;
        plan.machine = machine;
        plan.hosts = hosts;
        plan.hostfile = arguments.hostfile;
        plan.agent = arguments.agent;
        plan.allocation = allocation;
        plan.watch_hosts = hosts.size() > 1 && !std::getenv("OMPI_MCA_oob_tcp_keepalive_time");
        if (hosts.size() > 1 || (allocation && allocation->nodes > 1))
            plan.exported = launch::variables_for_hosts(own_environment());
        command = launch::mpirun_command(plan, program);
    }
    if (arguments.print) {
        std::cout << launch::shell_text(command) << std::endl;
        return 0;
    }
    std::cerr << "launch: " << launch::shell_text(command) << std::endl;
    check_hosts(hosts, arguments.agent, program[0]);
    become(command);
}

void add_batch_options(CLI::App& command, LaunchArguments& arguments) {
    CLI::Option* slurm = command.add_option(
        "--slurm", arguments.batch_file,
        "Write a batch file for Slurm instead: it saves before the limit, is requeued and resumes");
    const auto option = [&](const char* name, auto& value, const char* help) {
        return command.add_option(name, value, help)->needs(slurm);
    };
    option("--nodes", arguments.nodes, "Nodes; otherwise what --gpus-per-node comes to, else 1")
        ->check(whole_number(1, config::most_ranks));
    option("--gpus-per-node", arguments.gpus_per_node, "GPUs, one per rank")->check(whole_number(1, 1024));
    option("--cpus-per-task", arguments.cpus_per_task, "CPUs per rank")->check(whole_number(1, 4096));
    option("--time", arguments.time, "Time limit, as Slurm writes it: 24:00:00");
    option("--partition", arguments.partition, "Partition of the cluster");
    option("--account", arguments.account, "Account that pays");
    option("--signal-seconds", arguments.signal_seconds,
           "How long before the limit ranks are told to save (300)")
        ->check(whole_number(1, 65535));
    option("--sbatch", arguments.directives, "One more option of sbatch, --sbatch=--exclusive; repeatable")
        ->allow_extra_args(false);
    CLI::Option* points = option("--point", arguments.points,
                                 "One point of a job array, 'key=value; key=value'; repeat it for the others")
                              ->allow_extra_args(false);
    command.add_flag("--sweep", arguments.sweep, "A job array of the points of the job's sweep section")
        ->needs(slurm)
        ->excludes(points);
    option("--at-most", arguments.most_at_once, "Points of the array that run at once")
        ->check(whole_number(1, 100000));
}

int run(const LaunchArguments& arguments) {
    check_train_arguments(arguments.train);
    return arguments.batch_file.empty() ? start(arguments) : write_batch(arguments);
}

}  // namespace

launch::Ranks ranks_of(const LaunchArguments& arguments, const config::JobFile& file,
                       const std::vector<std::string>& overrides, const launch::Room& room) {
    const launch::Ranks ranks = choose_ranks(config::load(file, overrides).spec, arguments.ranks, room);
    const config::Job job = config::load_resolved(file, overrides, ranks.count, config::process_environment(),
                                                  train::schedule_rules());
    config::require_data(job.spec);
    return ranks;
}

std::string program_of(const LaunchArguments& arguments) {
    return arguments.program.empty() ? own_program() : arguments.program;
}

std::vector<std::string> train_words(const LaunchArguments& arguments,
                                     const std::vector<std::string>& overrides,
                                     const std::vector<std::string>& more) {
    std::vector<std::string> words = {program_of(arguments), "train", arguments.job};
    for (const std::string& assignment : overrides) words.insert(words.end(), {"--set", assignment});
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), arguments.train.begin(), arguments.train.end());
    return words;
}

void add_launch_command(CLI::App& app, std::function<int()>& action) {
    auto arguments = std::make_shared<LaunchArguments>();
    CLI::App* command = app.add_subcommand(
        "launch", "Start a job with the right mpirun or srun, or write a Slurm batch file");
    command->add_option("job", arguments->job, "Job spec (YAML)")->required();
    command->add_option("train-arguments", arguments->train,
                        "Behind --: more arguments of train, --resume auto");
    command->add_option("-n,--ranks", arguments->ranks, "Processes; otherwise tp x pp x dp of the job")
        ->check(whole_number(1, config::most_ranks));
    command->add_option("--set", arguments->overrides, "Override a key: --set train.steps=10 (YAML value)")
        ->allow_extra_args(false);
    command->add_flag("--print", arguments->print, "Print the command, or the batch file, and start nothing");
    command
        ->add_option("--starter", arguments->starter,
                     "srun or mpirun; auto: srun in a Slurm allocation whose srun has pmix")
        ->check(CLI::IsMember({"auto", "srun", "mpirun"}));
    CLI::Option* hosts =
        command->add_option("--hosts", arguments->hosts, "Hosts and their ranks: node1:4,node2:4");
    command->add_option("--hostfile", arguments->hostfile, "The same as lines of a file: node1 slots=4")
        ->excludes(hosts);
    command->add_option("--agent", arguments->agent,
                        "Command that runs another on a host (Open MPI's plm_rsh_agent); otherwise ssh");
    command->add_option("--escalier", arguments->program,
                        "The program as its path is where the ranks run; otherwise this one");
    add_batch_options(*command, *arguments);
    command->callback([arguments, &action] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace escalier::apps
