// escalier verify: one job on two grids, tensor by tensor
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace escalier::apps {

// Registers the subcommand; when it is parsed, `action` becomes what main() runs for the exit code.
void add_verify_command(CLI::App& app, std::function<int()>& action);

}  // namespace escalier::apps
