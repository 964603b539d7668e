// What rank 0 prints before step 1: grid, ranks, model, stages, batch, memory, predicted bubble, data.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "train/assembly.h"

namespace escalier::train {

// Idle share of the schedule with predicted stage costs (stage_costs.h), in [0, 1).
double predicted_bubble(const Assembly& assembly);

// Collective over `job` (arena sizes are gathered); the text is complete on rank 0. rank_table: from
// parallel/rank_table.h.
std::string start_page(const Assembly& assembly, comm::Communicator& job, const std::string& rank_table);

}  // namespace escalier::train
