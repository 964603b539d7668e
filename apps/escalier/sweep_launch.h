// How a point of a sweep is started: as escalier launch does it.
#pragma once

#include <string>
#include <vector>

#include "sweep/point.h"

namespace escalier::apps {

// The command line that starts this binary with `arguments` on the point's ranks: srun in an allocation of
// Slurm that offers PMIx, else mpirun. Of several jobs at a time none has cores of its own.
std::vector<std::string> point_command(const sweep::Point& point, const std::vector<std::string>& arguments,
                                       int jobs);

}  // namespace escalier::apps
