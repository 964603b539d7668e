// Everything that trains, put together for one grid: groups, schedule, arenas, model, step. It takes a
// communicator, never the world, so that two grids can stand side by side.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/saver.h"
#include "comm/mpi_env.h"
#include "core/compute_pool.h"
#include "device/arena.h"
#include "parallel/groups.h"
#include "pipeline/channels.h"
#include "schedule/program.h"
#include "train/backend.h"
#include "train/rank_model.h"
#include "train/train_step.h"

namespace escalier::train {

struct AssemblyOptions {
    int threads = 1;          // compute threads of this rank
    bool validation = false;  // room for validation batches too
    // Sends are done only once their receives have begun, as MPI may do with any message. For tests.
    bool synchronous_sends = false;
    // What to run; nothing: make_schedule(spec).
    std::optional<schedule::Schedule> schedule = std::nullopt;
};

class Assembly {
 public:
    // Collective over `job`, whose size is that of the grid. Weights get their initial values. Throws on all
    // ranks alike if memory is short on any.
    Assembly(const config::JobSpec& spec, comm::MpiEnv& env, comm::Communicator& job,
             const AssemblyOptions& options);

    const config::JobSpec& spec() const { return spec_; }  // with device, transport and type settled
    const parallel::Groups& groups() const { return groups_; }
    Backend& backend() { return backend_; }
    const Backend& backend() const { return backend_; }
    const schedule::Schedule& schedule() const { return schedule_; }
    const std::vector<schedule::Program>& programs() const { return programs_; }
    const device::Arenas& arenas() const { return *arenas_; }
    RankModel& model() { return *model_; }
    TrainStep& step() { return *step_; }
    const checkpoint::StateList& state() const { return state_; }  // what checkpoints hold of this rank
    checkpoint::Saver& saver() { return *saver_; }

 private:
    Backend backend_;
    config::JobSpec spec_;
    schedule::Schedule schedule_;
    std::vector<schedule::Program> programs_;          // one per pipeline rank
    std::vector<schedule::Program> forward_programs_;  // empty without validation
    parallel::Groups groups_;
    ComputePool pool_;
    std::unique_ptr<device::Arenas> arenas_;
    std::unique_ptr<pipeline::Channels> channels_;
    std::unique_ptr<RankModel> model_;
    std::unique_ptr<TrainStep> step_;
    checkpoint::StateList state_;
    std::unique_ptr<checkpoint::Saver> saver_;
};

}  // namespace escalier::train
