#include "train/job_programs.h"

#include <utility>

#include "core/check.h"
#include "schedule/generators.h"
#include "schedule/lower.h"
#include "schedule/share_slots.h"
#include "train/rank_model.h"
#include "train/schedule_rules.h"

namespace escalier::train {

namespace {

std::vector<schedule::Program> lowered(const schedule::Schedule& schedule, const config::JobSpec& spec) {
    std::vector<schedule::Program> programs = schedule::lower(schedule);
    for (schedule::Program& program : programs) schedule::share_slots(program, slot_groups(spec, program));
    return programs;
}

schedule::Schedule fitting(schedule::Schedule schedule, const config::JobSpec& spec) {
    ESCALIER_CHECK(schedule.pp == spec.parallel.pp && schedule.micro_batches == spec.micro_batches() &&
                       schedule.stages() == static_cast<int>(spec.pipeline.layers_per_stage.size()),
                   "the schedule is of other sizes than the job");
    return schedule;
}

}  // namespace

parallel::Grid grid_of(const config::JobSpec& spec) {
    return {static_cast<int>(spec.parallel.tp), static_cast<int>(spec.parallel.pp),
            static_cast<int>(spec.parallel.dp)};
}

JobPrograms::JobPrograms(const config::JobSpec& spec, std::optional<schedule::Schedule> given,
                         bool with_validation)
    : schedule(fitting(given ? std::move(*given) : make_schedule(spec), spec)),
      training(lowered(schedule, spec)),
      proof(schedule::prove(schedule, training)) {
    if (with_validation) validation = lowered(schedule::forward_only(schedule), spec);
}

}  // namespace escalier::train
