#include "ckpt_command.h"

#include <CLI/CLI.hpp>

#include "ckpt_check_command.h"
#include "ckpt_diff_command.h"
#include "ckpt_hf_command.h"
#include "ckpt_info_command.h"
#include "ckpt_ls_command.h"

namespace escalier::apps {

void add_ckpt_command(CLI::App& app, std::function<int()>& action) {
    CLI::App* ckpt = app.add_subcommand("ckpt", "Look at, check, compare and convert checkpoints");
    ckpt->require_subcommand(1);
    add_ckpt_ls_command(*ckpt, action);
    add_ckpt_info_command(*ckpt, action);
    add_ckpt_check_command(*ckpt, action);
    add_ckpt_diff_command(*ckpt, action);
    add_ckpt_hf_commands(*ckpt, action);
}

}  // namespace escalier::apps
