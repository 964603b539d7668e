// What a rank is built on: all of it outlives what is built.
#pragma once

#include <functional>

#include "comm/activity.h"
#include "comm/communicator.h"
#include "core/compute_pool.h"
#include "parallel/groups.h"
#include "pipeline/channels.h"
#include "schedule/program.h"
#include "train/assembly_hooks.h"
#include "train/backend.h"

namespace escalier::train {

struct RankSeat {
    Backend& backend;
    const parallel::Groups& groups;
    comm::Communicator& job;  // all ranks of the grid
    ComputePool& pool;
    const schedule::Program& program;
    const schedule::Program* forward;  // of validation; may be null
    pipeline::Channels& channels;
    comm::Activity& activity;
    // Until the device has done what was queued; the watchdog names the wait.
    std::function<void(const char* label)> wait_for_device;
    AssemblyHooks hooks = {};
};

}  // namespace escalier::train
