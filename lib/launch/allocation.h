// What Slurm has given to the job that this process runs in, as its environment says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/reader.h"

namespace escalier::launch {

struct Allocation {
    std::int64_t nodes = 1;
    std::int64_t cpus = 0;           // of all nodes together; 0: not said
    std::int64_t tasks = 0;          // as asked with --ntasks; 0: not said
    std::int64_t cpus_per_task = 0;  // 0: not asked
    std::int64_t gpus_per_node = 0;
};

// Ranks that the allocation has room for: its tasks, or its CPUs in shares of cpus_per_task; 0: not said.
std::int64_t task_places(const Allocation& allocation);

// Nothing outside an allocation. ConfigError where srun runs several copies of this process: a launch is
// started once, and starts the ranks itself.
std::optional<Allocation> slurm_allocation(const config::Environment& environment);

// Whether `srun --mpi=list` says that srun can start ranks by PMIx.
bool offers_pmix(const std::string& list);

}  // namespace escalier::launch
