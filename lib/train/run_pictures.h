// What a run leaves to be looked at of its steps: trace.json of the window of log.trace, and pipeline.svg of
// that window's last step, or of the run's last where there is no window.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "comm/mpi_env.h"
#include "train/assembly.h"
#include "train/run_output.h"
#include "train/step_report.h"
#include "train/step_trace.h"

namespace escalier::train {

class RunPictures {
 public:
    // output: null but on rank 0. Takes the trace's memory where one is wanted.
    RunPictures(Assembly& assembly, const StepReporter& reporter, comm::MpiEnv& env, RunOutput* output);

    // Round every step; reported: it has been through StepReporter::collect. Collective where it writes.
    void begin(std::int64_t step);
    void end_reported(const StepResult& result);
    // Collective, after the last step: what is not written yet.
    void finish();

 private:
    void write_trace();
    void write_pipeline();
    bool write(const char* name, const std::function<std::string()>& text);

    Assembly& assembly_;
    const StepReporter& reporter_;
    comm::MpiEnv& env_;
    RunOutput* output_;
    std::unique_ptr<StepTrace> trace_;  // null: none is wanted, or it is written
    std::int64_t step_ = 0;             // the last one; 0: none yet
    bool pictured_ = false;             // pipeline.svg shows the traced window
};

}  // namespace escalier::train
