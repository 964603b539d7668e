// What rank 0 prints before step 1: grid, ranks, model, stages, batch, memory, predicted bubble, data.
#pragma once

#include <string>
#include <vector>

#include "device/arena.h"
#include "train/assembly.h"

namespace escalier::train {

// Idle share of the schedule with predicted stage costs (stage_costs.h), in [0, 1).
double predicted_bubble(const Assembly& assembly);

// arenas: of all ranks (memory_report.h). rank_table: from parallel/rank_table.h.
std::string start_page(const Assembly& assembly, const std::vector<std::vector<device::ArenaSize>>& arenas,
                       const std::string& rank_table);

}  // namespace escalier::train
