// Everything that trains, put together for one grid: groups, schedule, arenas, model, step. It takes a
// communicator, never the world, so that two grids can stand side by side.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/mpi_env.h"
#include "core/compute_pool.h"
#include "device/arena.h"
#include "parallel/groups.h"
#include "pipeline/channels.h"
#include "schedule/program.h"
#include "train/assembly_hooks.h"
#include "train/backend.h"
#include "train/job_programs.h"
#include "train/rank_parts.h"

namespace escalier::train {

struct AssemblyOptions {
    int threads = 1;          // compute threads of this rank
    bool validation = false;  // room for validation batches too
    // Sends are done only once their receives have begun, as MPI may do with any message. For tests.
    bool synchronous_sends = false;
    // What to run; nothing: make_schedule(spec).
    std::optional<schedule::Schedule> schedule = std::nullopt;
    AssemblyHooks hooks = {};
};

class Assembly {
 public:
    // Collective over the world, which `job` is, of the grid's size. Weights get their initial values. Throws
    // on all ranks alike if memory is short on any.
    Assembly(const config::JobSpec& spec, comm::MpiEnv& env, comm::Communicator& job,
             const AssemblyOptions& options);
    // The same on a backend that is there already; collective over `job` alone.
    Assembly(const config::JobSpec& spec, comm::MpiEnv& env, comm::Communicator& job,
             const AssemblyOptions& options, Backend backend);

    const config::JobSpec& spec() const { return spec_; }  // with device, transport and type settled
    const parallel::Groups& groups() const { return groups_; }
    Backend& backend() { return backend_; }
    const Backend& backend() const { return backend_; }
    const schedule::Schedule& schedule() const { return programs_.schedule; }
    const std::vector<schedule::Program>& programs() const { return programs_.training; }
    const schedule::Proof& proof() const { return programs_.proof; }
    const device::Arenas& arenas() const { return *arenas_; }
    RankModel& model() { return parts_->model; }
    TrainStep& step() { return parts_->step; }
    const checkpoint::StateList& state() const { return parts_->state; }
    checkpoint::Saver& saver() { return parts_->saver; }

 private:
    Backend backend_;
    config::JobSpec spec_;
    JobPrograms programs_;
    parallel::Groups groups_;
    ComputePool pool_;
    std::unique_ptr<device::Arenas> arenas_;
    std::unique_ptr<pipeline::Channels> channels_;
    std::unique_ptr<RankParts> parts_;
};

}  // namespace escalier::train
