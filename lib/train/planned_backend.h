// The backend of a run that is only planned, on this machine or another one: it has the sizes of the real one
// (scratch, prepared weights, what sums over ranks need) and cannot run.
#pragma once

#include <string>

#include "train/backend.h"

namespace escalier::train {

// device: "cpu" or "cuda". comm: "mpi", "nccl" or "staged".
Backend planned_backend(const std::string& device, const std::string& comm, bool deterministic);

}  // namespace escalier::train
