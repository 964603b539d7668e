// Finds launches that made N single processes instead of one job of N ranks.
#pragma once

#include <functional>
#include <string>

namespace escalier::comm {

// Reads an environment variable; null if it is not set.
using Environment = std::function<const char*(const char* name)>;

// What is wrong with the launch, empty if nothing. world_size: 0 before MPI_Init, which some of these
// launches do not survive.
std::string launch_problem(const Environment& environment, int world_size);

}  // namespace escalier::comm
