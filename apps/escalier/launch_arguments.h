// What the command line of `escalier launch` says, and the job that it names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/load.h"
#include "launch/ranks.h"

namespace escalier::apps {

struct LaunchArguments {
    std::string job;
    std::optional<std::int64_t> ranks;
    std::vector<std::string> overrides;  // --set
    std::vector<std::string> train;      // behind --
    std::string starter = "auto";        // auto | srun | mpirun
    std::string hosts, hostfile, agent;
    std::string program;  // --escalier
    bool print = false;

    // --slurm and what goes with it
    std::string batch_file;
    std::optional<std::int64_t> nodes;
    std::int64_t gpus_per_node = 0, cpus_per_task = 0;
    std::string time, partition, account;
    std::int64_t signal_seconds = 300;
    std::vector<std::string> directives;
    std::vector<std::string> points;
    bool sweep = false;  // an element for each point of the job's sweep
    std::int64_t most_at_once = 0;
};

// The ranks of the job with `overrides`, once all of it has passed the rules that train applies. ConfigError.
launch::Ranks ranks_of(const LaunchArguments& arguments, const config::JobFile& file,
                       const std::vector<std::string>& overrides, const launch::Room& room);

// As its path is where the ranks run.
std::string program_of(const LaunchArguments& arguments);

// PROGRAM train JOB --set …, and what stands behind --, with `more` before it.
std::vector<std::string> train_words(const LaunchArguments& arguments,
                                     const std::vector<std::string>& overrides,
                                     const std::vector<std::string>& more = {});

// --slurm: writes the batch file, or prints it; notes go to stderr.
int write_batch(const LaunchArguments& arguments);

}  // namespace escalier::apps
