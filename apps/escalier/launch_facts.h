// What `launch` finds out about where it runs.
#pragma once

#include <string>
#include <vector>

#include "launch/hosts.h"
#include "launch/machine.h"

namespace escalier::apps {

launch::Machine this_machine();

// This binary, relative to the working directory where it lies below it.
std::string own_program();

// The command line that this process was started with; "escalier" stands for the binary.
std::string own_command_line();

// NAME=VALUE of this process.
std::vector<std::string> own_environment();

// Whether srun is here and can start ranks by PMIx.
bool srun_offers_pmix();

// Asks every other host by the agent whether ranks can be started there. ConfigError with what is wrong, of
// all hosts together. agent: empty for Open MPI's own setting, ssh.
void check_hosts(const std::vector<launch::Host>& hosts, const std::string& agent,
                 const std::string& program);

// Replaces this process; its signals and exit code are the command's from then on. CommError if there is no
// such program.
[[noreturn]] void become(const std::vector<std::string>& command);

}  // namespace escalier::apps
