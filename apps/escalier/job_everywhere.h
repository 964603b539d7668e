// A job spec for all ranks of a command.
#pragma once

#include <functional>
#include <string>

#include "comm/mpi_env.h"
#include "config/load.h"

namespace escalier::apps {

// Rank 0 reads files and environment in `load`, which returns a resolved job; the others get it as text, so
// that all hold the same. Collective; all ranks throw alike. path: of the job file, for messages.
config::JobSpec load_everywhere(comm::MpiEnv& env, const std::string& path,
                                const std::function<config::Job()>& load);

}  // namespace escalier::apps
