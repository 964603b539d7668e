// `escalier plan`: what a job will take, rank by rank, without MPI, GPU or data.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace escalier::apps {

// Registers the subcommand; when it is parsed, `action` becomes what main() runs (its result is the exit
// code; errors of core/error.h pass through).
void add_plan_command(CLI::App& app, std::function<int()>& action);

}  // namespace escalier::apps
