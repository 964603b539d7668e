// The one binary: parses the command line, runs one subcommand, turns errors into messages and exit codes.
#include <CLI/CLI.hpp>
#include <csignal>
#include <functional>
#include <iostream>

#include "check_command.h"
#include "core/error.h"
#include "data_command.h"
#include "env_command.h"
#include "generate_command.h"
#include "print_config_command.h"
#include "schedule_command.h"
#include "schema_command.h"
#include "train_command.h"

int main(int argc, char** argv) {
    using namespace escalier;
    std::signal(SIGXFSZ, SIG_IGN);  // a file over the size limit is a write error with a message, not a death
    CLI::App app("Escalier trains transformer language models on a tensor x pipeline x data grid.",
                 "escalier");
    app.require_subcommand(1);
    app.set_version_flag("--version", "escalier " ESCALIER_VERSION);
    std::function<int()> action;
    apps::add_train_command(app, action);
    apps::add_generate_command(app, action);
    apps::add_check_command(app, action);
    apps::add_print_config_command(app, action);
    apps::add_schema_command(app, action);
    apps::add_schedule_command(app, action);
    apps::add_data_command(app, action);
    apps::add_env_command(app, action);
    try {
        app.parse(argc, argv);
        return action();
    } catch (const CLI::ParseError& error) {
        // CLI11's own codes lie above 100; help and version end with 0.
        return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::usage);
    } catch (const Error& error) {
        std::cerr << "escalier: " << error.what() << std::endl;
        return static_cast<int>(error.code());
    } catch (const std::exception& error) {
        std::cerr << "escalier: " << error.what() << std::endl;
        return static_cast<int>(ExitCode::failed);
    }
}
