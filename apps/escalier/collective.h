// What commands that run on several ranks have in common.
#pragma once

#include <functional>

#include "comm/mpi_env.h"

namespace escalier::apps {

// Runs `work`, whose exit code it returns, and turns what it throws into one: an error that all ranks share
// is printed once, one that only some ranks see ends the job.
int run_collective(comm::MpiEnv& env, const std::function<int()>& work);

}  // namespace escalier::apps
