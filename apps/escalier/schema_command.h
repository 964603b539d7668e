// `escalier schema`: JSON Schema of the job spec.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace escalier::apps {

// Registers the subcommand; when it is parsed, `action` becomes what main() runs (its result is the exit
// code; errors of core/error.h pass through).
void add_schema_command(CLI::App& app, std::function<int()>& action);

}  // namespace escalier::apps
