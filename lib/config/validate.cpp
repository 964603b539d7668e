#include "config/validate.h"

#include "config/dump.h"
#include "config/rules.h"
#include "core/check.h"
#include "core/error.h"

namespace escalier::config {

namespace {

// Marks every value that differs from what was asked for.
void mark_derived(JobSpec before, Job& after) {
    const FieldTable old_table = table_of(before), new_table = table_of(after.spec);
    for (std::size_t i = 0; i < old_table.all().size(); ++i) {
        const std::string was = yaml_text(old_table.all()[i].value);
        if (was == yaml_text(new_table.all()[i].value)) continue;
        const auto origin = after.origins.find(old_table.all()[i].path);
        const std::string whence = origin == after.origins.end() ? "" : " (" + origin->second + ")";
        after.origins[old_table.all()[i].path] = "derived from " + was + whence;
    }
}

Job resolve(const Job& job, std::int64_t ranks, const ScheduleRules& schedules, Problems& problems) {
    ESCALIER_CHECK(ranks >= 1, "a job has at least one rank");
    Job out = job;
    apply_rules(out, ranks, schedules, problems);
    problems.throw_if_any();
    mark_derived(job.spec, out);
    return out;
}

}  // namespace

Job resolve(const Job& job, std::int64_t ranks, const ScheduleRules& schedules) {
    Problems problems;
    return resolve(job, ranks, schedules, problems);
}

JobSpec resolve(const JobSpec& spec, std::int64_t ranks, const ScheduleRules& schedules) {
    return resolve(Job{spec}, ranks, schedules).spec;
}

Job load_resolved(const JobFile& file, const std::vector<std::string>& overrides, std::int64_t ranks,
                  const Environment& environment, const ScheduleRules& schedules) {
    Problems problems;
    const Job job = load(file, overrides, environment, problems);
    return resolve(job, ranks, schedules, problems);
}

void require_data(const JobSpec& spec) {
    if (spec.data.train.empty())
        throw ConfigError(
            "data.train is needed to train; give a list such as data: {train: [{path: data/corpus}]}");
}

}  // namespace escalier::config
