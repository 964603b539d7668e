// The shortest schedule of a small size, by trying every order of every rank: what a search is held against.
// Shares nothing with the simulator or the generators.
#pragma once

#include "schedule/generators.h"

namespace escalier::schedule {

// any: only W's of a stage run in micro-batch order. ascending: F's and I's too.
enum class OrderRule : std::uint8_t { any, ascending };

// For options.costs, within its memory limits. The product of all ranks' orders is tried, so sizes must be
// tiny.
Schedule best_of_every_order(const GenerateOptions& options, Placement placement, OrderRule rule);

}  // namespace escalier::schedule
