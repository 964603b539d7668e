// run.json: where and with what a run was made, and the checkpoint that its last start took.
#pragma once

#include <string>

#include "comm/mpi_env.h"
#include "parallel/rank_table.h"
#include "train/assembly.h"

namespace escalier::train {

// resumed_from: step folder; empty: initial weights.
std::string run_facts(const Assembly& assembly, const comm::MpiEnv& env, const parallel::RankTable& ranks,
                      const std::string& resumed_from);

// What must be known of a run that dies before the rest is: the checkpoint alone.
std::string origin_facts(const std::string& resumed_from);

}  // namespace escalier::train
