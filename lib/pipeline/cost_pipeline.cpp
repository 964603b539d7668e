#include "pipeline/cost_pipeline.h"

namespace escalier::pipeline {

CostPipeline::CostPipeline(comm::MpiEnv& env, comm::Communicator& pp, const schedule::Schedule& schedule,
                           const std::vector<schedule::Program>& programs, std::int64_t message_bytes,
                           bool synchronous_sends)
    : program_(programs.at(static_cast<std::size_t>(pp.rank()))),
      boundary_{1, (message_bytes + 3) / 4},
      transport_(comm::make_mpi_transport(env)),
      channels_(*transport_, pp, schedule, programs, {}, synchronous_sends) {}

void CostPipeline::set(const schedule::Durations& durations, Clock& clock) {
    executor_.reset();
    stages_ = std::make_unique<CostStages>(program_, durations, clock);
    const auto make = [&](device::Arena& arena) {
        return std::make_unique<Executor>(program_, stages_->stages(), DType::f32, boundary_, arena,
                                          channels_, clock, nullptr, nullptr);
    };
    device::Arena measured("communication");
    make(measured);
    arena_ = std::make_unique<device::Arena>("communication", device_->allocator(), measured.used());
    executor_ = make(*arena_);
}

const StepTimes& CostPipeline::run() {
    executor_->run_step();
    return executor_->times();
}

}  // namespace escalier::pipeline
