// The memory of a planned job, as a table and as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "train/memory_plan.h"

namespace escalier::apps {

struct MemoryLimit {
    std::int64_t bytes = 0;  // that a rank may take where it computes: RankMemory::total()
    std::string source;      // "--memory"
};

struct PlannedMemory {
    std::vector<train::RankMemory> ranks;             // of each pipeline rank the fullest, or all
    std::optional<MemoryLimit> limit;                 // none: nobody knows
    std::optional<std::int64_t> largest_micro_batch;  // that fits; none: not even the smallest, or no limit

    bool fits(const train::RankMemory& rank) const { return !limit || rank.total() <= limit->bytes; }
    bool fits() const;
};

PlannedMemory plan_memory(const train::PlannedJob& job, const std::optional<MemoryLimit>& limit,
                          bool all_ranks);

// A row per rank, what it fits into, and the largest micro-batch.
std::string memory_page(const train::PlannedJob& job, const PlannedMemory& memory);

nlohmann::ordered_json memory_json(const train::PlannedJob& job, const PlannedMemory& memory);

}  // namespace escalier::apps
