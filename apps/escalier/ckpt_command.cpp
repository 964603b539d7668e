#include "ckpt_command.h"

#include <CLI/CLI.hpp>

namespace escalier::apps {

void add_ckpt_command(CLI::App& app, std::function<int()>& /*action*/) {
    CLI::App* ckpt = app.add_subcommand("ckpt", "Look at, check, compare and convert checkpoints");
    ckpt->require_subcommand(1);
}

}  // namespace escalier::apps
