// escalier ckpt import-hf | export-hf
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace escalier::apps {

// Registers both below `ckpt`; when one is parsed, `action` becomes what main() runs for the exit code.
void add_ckpt_hf_commands(CLI::App& ckpt, std::function<int()>& action);

}  // namespace escalier::apps
