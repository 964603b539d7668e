// The one binary: parses the command line, runs one subcommand, turns errors into messages and exit codes.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <functional>
#include <iostream>

#include "check_command.h"
#include "ckpt_command.h"
#include "core/error.h"
#include "data_command.h"
#include "env_command.h"
#include "generate_command.h"
#include "launch_command.h"
#include "plan_command.h"
#include "print_config_command.h"
#include "refusal.h"
#include "report_command.h"
#include "schedule_command.h"
#include "schema_command.h"
#include "sweep_command.h"
#include "train_command.h"
#include "unknown_command.h"
#include "verify_command.h"
#include "watch_command.h"

namespace {

// A page that a full disk swallowed must not look like success.
int written(int code) {
    std::cout.flush();
    if (code == 0 && (!std::cout || std::fflush(stdout) != 0))
        return escalier::apps::refuse("standard output cannot be written", escalier::ExitCode::write_failed);
    return code;
}

}  // namespace

int main(int argc, char** argv) {
    using namespace escalier;
    std::signal(SIGXFSZ, SIG_IGN);  // a file over the size limit is a write error with a message, not a death
    CLI::App app("Escalier trains transformer language models on a tensor x pipeline x data grid.",
                 "escalier");
    app.require_subcommand(1);
    app.set_version_flag("--version", "escalier " ESCALIER_VERSION);
    std::function<int()> action;
    apps::add_train_command(app, action);
    apps::add_launch_command(app, action);
    apps::add_generate_command(app, action);
    apps::add_verify_command(app, action);
    apps::add_check_command(app, action);
    apps::add_plan_command(app, action);
    apps::add_print_config_command(app, action);
    apps::add_schema_command(app, action);
    apps::add_schedule_command(app, action);
    apps::add_sweep_command(app, action);
    apps::add_data_command(app, action);
    apps::add_ckpt_command(app, action);
    apps::add_report_command(app, action);
    apps::add_watch_command(app, action);
    apps::add_env_command(app, action);
    try {
        const std::string unknown = apps::unknown_command(app, argc, argv);
        if (!unknown.empty()) return apps::refuse(unknown.c_str(), ExitCode::usage);
        app.parse(argc, argv);
        const int code = action();
        return app.got_subcommand("train") ? code : written(code);  // a run has its log
    } catch (const CLI::ParseError& error) {
        // CLI11's own codes lie above 100; help and version end with 0.
        if (error.get_exit_code() != 0) {
            apps::say_once([&] { app.exit(error); });
            return static_cast<int>(ExitCode::usage);
        }
        if (apps::first_process()) app.exit(error);
        return written(0);
    } catch (const std::exception& error) {
        const Failure failure = failure_of(error);
        return apps::refuse(failure.message.c_str(), failure.code);
    }
}
