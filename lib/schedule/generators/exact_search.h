// Branch and bound over every order of a small size.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/generators/placed_model.h"

namespace escalier::schedule::generators {

// Per rank the shortest order within the model's memory limits if it is shorter than `than`; none otherwise.
// F, I and W of a stage run in micro-batch order. After `most_nodes` partial orders the best until then.
std::optional<std::vector<std::vector<Action>>> shorter_order(const PlacedModel& model, double than,
                                                              std::int64_t most_nodes);

}  // namespace escalier::schedule::generators
