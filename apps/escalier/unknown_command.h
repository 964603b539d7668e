// What a command line calls that there is not.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace escalier::apps {

// Empty where every command of the line is known; else a sentence that names it, the nearest one and all
// there are. CLI11 itself says only that a command is missing.
std::string unknown_command(const CLI::App& app, int argc, char** argv);

}  // namespace escalier::apps
