// The memory of a job's fullest rank in well under a millisecond, for searches over many jobs of one model:
// sums of what was measured once of a stage's kinds, by the constructors that train. Exact but for small
// buffers (packed gradients, the share of a checkpoint, rings that a schedule makes longer than it must);
// PlannedJob is exact.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "config/job_spec.h"
#include "schedule/action.h"
#include "train/memory_plan.h"

namespace escalier::train {

class MemoryOracle {
 public:
    explicit MemoryOracle(const PlannedMachine& machine);
    ~MemoryOracle();
    MemoryOracle(const MemoryOracle&) = delete;
    MemoryOracle& operator=(const MemoryOracle&) = delete;

    // RankMemory::total() of the fullest rank of each pipeline rank. spec: resolved; specs differ in grid,
    // pipeline, batch and recompute alone. schedule: of the spec. Remembers; not for several threads at once.
    std::vector<std::int64_t> bytes(const config::JobSpec& spec, const schedule::Schedule& schedule);

 private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace escalier::train
