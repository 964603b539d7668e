// What a job spec means on the device it runs on. The rest of a spec is resolved without asking the machine;
// run.device: auto is settled by whoever starts the run, and with it run.comm and train.dtype.
#pragma once

#include <string>

#include "config/load.h"
#include "config/problems.h"

namespace escalier::config {

// Resolves run.comm and train.dtype where run.device is cpu or cuda, and refuses what that device cannot do;
// leaves all three alone where it is auto. run.comm: auto stays with cuda: it depends on who shares a GPU.
void apply_device_rules(Job& job, Problems& problems);

// A resolved spec on this device ("cpu" or "cuda") and this transport ("mpi", "nccl" or "staged"). Throws
// ConfigError where the spec asks for what they cannot do.
JobSpec on_device(const JobSpec& spec, const std::string& device, const std::string& comm);

}  // namespace escalier::config
