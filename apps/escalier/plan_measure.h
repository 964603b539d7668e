// `escalier plan --measure`: times of the parts of a job's model on this machine, as a profile.
#pragma once

#include <string>
#include <vector>

#include "config/load.h"

namespace escalier::apps {

struct MeasureArguments {
    bool measure = false;
    std::string out = "profile.yaml";
    int repeats = 5;
};

// On one process, or on all that mpirun started, at once. job: resolved by rank 0; ranks: of the job that is
// planned. The exit code.
int run_measure(const MeasureArguments& arguments, const std::string& job_path,
                const std::vector<std::string>& overrides, std::int64_t ranks);

}  // namespace escalier::apps
