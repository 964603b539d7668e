// What a plan predicts for the points of a sweep.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "config/job_spec.h"

namespace escalier::apps {

using StepPredictor = std::function<std::optional<double>(const config::JobSpec&)>;

// Milliseconds of a step. hardware: a name of configs/hardware; profile: a file of `escalier plan --measure`,
// for the points that do the work it measured; both empty: `cpu` for jobs that do not run on GPUs, nothing
// for others. With run.clock sleep the set times alone. Throws ConfigError or IoError for what the two name.
StepPredictor step_predictor(const std::string& hardware, const std::string& profile);

}  // namespace escalier::apps
