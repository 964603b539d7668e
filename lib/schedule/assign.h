// From ring sizes to programs: the walk over a rank's actions that hands out buffers and slots.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "schedule/action.h"
#include "schedule/program.h"

namespace escalier::schedule {

enum class Ring : std::uint8_t { inputs, outputs, output_gradients, input_gradients };

// Sizes of the four rings of every place; 0 where the place has no such messages.
using RingSizes = std::vector<std::array<int, 4>>;
int& ring_size(RingSizes& sizes, int place, Ring ring);

// The least sizes with one message in advance (rule in lower.h). Rings between stages of one rank stay 0:
// they get what assign() finds they need.
RingSizes least_ring_sizes(const Schedule& schedule);

std::vector<Program> assign(const Schedule& schedule, const RingSizes& sizes);

}  // namespace escalier::schedule
