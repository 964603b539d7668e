// The largest micro-batch whose memory a rank has.
#pragma once

#include <cstdint>
#include <optional>

#include "train/memory_plan.h"

namespace escalier::train {

// Of the micro-batches that divide global_batch / dp and suit the schedule; grid, global batch and all else
// stay. limit: bytes of RankMemory::total(), of every rank. Nothing fits: none.
std::optional<std::int64_t> largest_micro_batch(const config::JobSpec& resolved,
                                                const PlannedMachine& machine, std::int64_t limit);

}  // namespace escalier::train
