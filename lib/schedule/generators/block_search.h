// Looks for a guide that repeats for every micro-batch.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/generators/list_scheduler.h"

namespace escalier::schedule::generators {

// A guide that repeats for every micro-batch: a building block (building_block.cpp) in real time.
struct BlockGuide {
    std::vector<double> forward, input_gradient;  // per stage, of micro-batch 0
    double period = 0;                            // from one micro-batch to the next
    std::vector<double> fill, patience;           // as in Guide
    bool free_memory_first = true, strict = false;
};

// Overwrites `guide` with the block for every micro-batch.
void fill_guide(const BlockGuide& block, int micro_batches, Guide& guide);

// The best blocks that at most `passes` list schedules find, best first, at most `keep`. Deterministic.
std::vector<BlockGuide> search_blocks(const PlacedModel& model, std::int64_t passes, std::size_t keep);

}  // namespace escalier::schedule::generators
