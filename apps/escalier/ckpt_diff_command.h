// escalier ckpt diff
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace escalier::apps {

// Registers the command below `ckpt`; when it is parsed, `action` becomes what main() runs for the exit code.
void add_ckpt_diff_command(CLI::App& ckpt, std::function<int()>& action);

}  // namespace escalier::apps
