// escalier ckpt: what is done with checkpoints outside a run. Each of its commands has a file of its own.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace escalier::apps {

// Registers the subcommand; when it is parsed, `action` becomes what main() runs for the exit code.
void add_ckpt_command(CLI::App& app, std::function<int()>& action);

}  // namespace escalier::apps
