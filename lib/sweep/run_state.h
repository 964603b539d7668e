// Where the run of a point stands, as its folder tells.
#pragma once

#include <string>

#include "config/job_spec.h"

namespace escalier::sweep {

enum class RunStage {
    absent,       // there is no run yet
    running,      // a process has it under way
    finished,     // all steps done, and of this very job
    interrupted,  // begun, and of this very job
    other_job     // of a job that computes something else
};

struct RunState {
    RunStage stage = RunStage::absent;
    bool has_checkpoint = false;
    std::string difference;  // other_job: "train.steps was 10 and is 20"
};

// spec: the point's, resolved. A run is of the same job if its config.yaml has every value of it but those of
// keys that only say what is kept and shown; what the job leaves to the machine (auto) may be anything.
RunState run_state(const std::string& run_folder, const config::JobSpec& spec);

}  // namespace escalier::sweep
