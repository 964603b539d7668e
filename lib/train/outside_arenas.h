// What a rank takes besides its arenas, estimated: MPI, libraries, what groups share on a node, and on a GPU
// the context and what products and NCCL keep.
#pragma once

#include <cstdint>
#include <vector>

#include "config/job_spec.h"
#include "parallel/groups.h"

namespace escalier::train {

struct OutsideArenas {
    std::int64_t host = 0, device = 0;  // bytes
};

struct GroupExtent {
    parallel::GroupKind kind;
    int size = 1;
    bool one_node = true;
};

// spec: resolved and settled on a device. overlaps: the schedule has overlapped pairs. ranks: of the job.
OutsideArenas outside_arenas(const config::JobSpec& spec, int threads, bool overlaps, int ranks,
                             const std::vector<GroupExtent>& groups);

}  // namespace escalier::train
