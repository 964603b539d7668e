// escalier sweep list | count | run | table
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace escalier::apps {

// Registers the subcommand; when it is parsed, `action` becomes what main() runs for the exit code.
void add_sweep_command(CLI::App& app, std::function<int()>& action);

}  // namespace escalier::apps
