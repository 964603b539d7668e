// run.json: where and with what a run was made.
#pragma once

#include <string>

#include "comm/mpi_env.h"
#include "parallel/rank_table.h"
#include "train/assembly.h"

namespace escalier::train {

std::string run_facts(const Assembly& assembly, const comm::MpiEnv& env, const parallel::RankTable& ranks);

}  // namespace escalier::train
