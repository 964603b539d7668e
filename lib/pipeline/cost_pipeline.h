// One rank's part of a pipeline whose actions take set times: the executor, channels and messages of a real
// run without a model.
#pragma once

#include <memory>
#include <vector>

#include "comm/mpi_env.h"
#include "device/arena.h"
#include "device/device.h"
#include "pipeline/channels.h"
#include "pipeline/clock.h"
#include "pipeline/cost_stage.h"
#include "pipeline/executor.h"
#include "schedule/program.h"
#include "schedule/simulate.h"

namespace escalier::pipeline {

class CostPipeline {
 public:
    // Collective over pp. programs: of all pipeline ranks, by rank. message_bytes: at least 8, rounded up to
    // whole floats.
    CostPipeline(comm::MpiEnv& env, comm::Communicator& pp, const schedule::Schedule& schedule,
                 const std::vector<schedule::Program>& programs, std::int64_t message_bytes = 8,
                 bool synchronous_sends = false);

    // What the next steps run on.
    void set(const schedule::Durations& durations, Clock& clock);
    // One step; its times, valid until the next call. The ranks start together only if the caller sees to it.
    const StepTimes& run();
    const CostStages& stages() const { return *stages_; }

 private:
    schedule::Program program_;
    Shape boundary_;
    std::unique_ptr<comm::Transport> transport_;
    Channels channels_;
    std::unique_ptr<device::Device> device_ = device::make_cpu_device();
    std::unique_ptr<device::Arena> arena_;
    std::unique_ptr<CostStages> stages_;
    std::unique_ptr<Executor> executor_;
};

}  // namespace escalier::pipeline
