// `escalier print-config`: the resolved job spec, and where each value came from.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace escalier::apps {

// Registers the subcommand; when it is parsed, `action` becomes what main() runs (its result is the exit
// code; errors of core/error.h pass through).
void add_print_config_command(CLI::App& app, std::function<int()>& action);

}  // namespace escalier::apps
