// The generators behind the table of generators.h: one function per kind, and what is wrong with a size that
// a kind does not take (empty: nothing). A generator may rely on its problem function having said nothing.
#pragma once

#include <string>

#include "schedule/generators.h"

namespace escalier::schedule::generators {

// Of the sizes in `options`, without actions.
Schedule empty_schedule(const GenerateOptions& options, Placement placement);

std::string one_chunk_problem(const GenerateOptions& options);

Schedule gpipe(const GenerateOptions& options);
Schedule one_forward_one_backward(const GenerateOptions& options);

}  // namespace escalier::schedule::generators
