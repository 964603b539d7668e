// What a run will take of memory, rank by rank, without MPI and without the machine it is for: the parts that
// train, built on measuring arenas.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "config/job_spec.h"
#include "device/arena.h"
#include "parallel/grid.h"
#include "train/job_programs.h"

namespace escalier::train {

// Where a planned job is to run.
struct PlannedMachine {
    std::string device = "cpu";  // where run.device is auto: "cpu" or "cuda"
    int ranks_per_node = 1;      // ranks fill one node after the other
    int threads = 1;             // compute threads of a rank where run.threads is auto
};

struct RankMemory {
    int rank = 0;
    parallel::GridPlace place;
    std::vector<device::ArenaSize> arenas;  // to the byte, in the order of device::Arenas
    // What lies outside the arenas, an estimate: in the memory of the host (MPI, libraries, what groups share
    // on a node) and, on a GPU, of the device (its context, products' and NCCL's own).
    std::int64_t outside_host = 0, outside_device = 0;

    bool gpu = false;  // without one everything is the host's

    std::int64_t in_arenas(bool host) const;
    std::int64_t arena_bytes() const { return in_arenas(true) + in_arenas(false); }
    std::int64_t host_bytes() const { return in_arenas(true) + outside_host; }
    std::int64_t device_bytes() const { return in_arenas(false) + outside_device; }
    // Of the memory that the run computes in, the scarcer one.
    std::int64_t total() const { return gpu ? device_bytes() : host_bytes(); }
};

class PlannedJob {
 public:
    // spec: resolved. Throws ConfigError where it does not fit the device, or its schedule is no schedule.
    PlannedJob(const config::JobSpec& spec, const PlannedMachine& machine);
    ~PlannedJob();
    PlannedJob(PlannedJob&&) noexcept;

    const config::JobSpec& spec() const;  // with device, transport and type settled
    const JobPrograms& programs() const;
    const PlannedMachine& machine() const;

    // Of one rank, as it will be.
    RankMemory memory_of(int rank) const;
    std::vector<RankMemory> all_ranks() const;
    // Of each pipeline rank the rank that takes most. Ranks of a pipeline rank differ in nothing but their
    // share of a checkpoint (the arena `staging`); beyond 1,024 ranks those of tp_rank 0 are looked at, which
    // also hold what all tensor ranks have alike.
    std::vector<RankMemory> fullest_ranks() const;

 private:
    struct State;
    std::unique_ptr<State> state_;
};

// The spec with device, transport and type settled as a run there would.
config::JobSpec settled_on(const config::JobSpec& spec, const PlannedMachine& machine);

// Whether a run keeps room for validation batches. (One whose data have no validation samples does not, which
// a plan, without data, cannot know.)
bool plans_validation(const config::JobSpec& spec);

}  // namespace escalier::train
