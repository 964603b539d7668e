// Sizes that more than one module has to agree on.
#pragma once

#include <cstdint>

namespace escalier {

// Most stages x micro-batches of a schedule.
inline constexpr std::int64_t most_schedule_cells = std::int64_t{1} << 22;

}  // namespace escalier
