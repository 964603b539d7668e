// The schedule of a job as its ranks run it.
#pragma once

#include <optional>
#include <vector>

#include "config/job_spec.h"
#include "parallel/grid.h"
#include "schedule/action.h"
#include "schedule/program.h"
#include "schedule/prove.h"

namespace escalier::train {

parallel::Grid grid_of(const config::JobSpec& spec);  // resolved

struct JobPrograms {
    // spec: resolved. given: what to run; nothing: make_schedule(spec). validation: with programs for it.
    // Proves it. Throws ConfigError.
    JobPrograms(const config::JobSpec& spec, std::optional<schedule::Schedule> given, bool validation);

    schedule::Schedule schedule;
    std::vector<schedule::Program> training;  // one per pipeline rank
    schedule::Proof proof;
    std::vector<schedule::Program> validation;  // one per pipeline rank; empty without

    const schedule::Program& program(int pp_rank) const {
        return training[static_cast<std::size_t>(pp_rank)];
    }
    const schedule::Program* forward(int pp_rank) const {
        return validation.empty() ? nullptr : &validation[static_cast<std::size_t>(pp_rank)];
    }
};

}  // namespace escalier::train
