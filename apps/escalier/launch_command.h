// escalier launch: works out and starts the command that runs a job, or writes a batch file for it.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace escalier::apps {

void add_launch_command(CLI::App& app, std::function<int()>& action);

}  // namespace escalier::apps
