// Resolves every `auto` of a spec for a number of ranks, and refuses what does not fit, all of it at once.
//
// Resolved: dp, seq_len, global_batch, decay_steps, the model's sizes, chunks; layout as an explicit list
// with one entry per stage; recompute with one entry per stage. run.device and run.threads stay auto: only
// the node knows its GPUs and cores (device_rules.h says what follows from the device); pipeline.group too:
// it may mean groups of unequal sizes.
#pragma once

#include "config/load.h"
#include "config/schedule_rules.h"

namespace escalier::config {

// ranks >= 1. Throws ConfigError. Resolving twice changes nothing.
JobSpec resolve(const JobSpec& spec, std::int64_t ranks, const ScheduleRules& schedules = any_schedule);

// The same; messages say where a value stands, and origins mark what was derived.
Job resolve(const Job& job, std::int64_t ranks, const ScheduleRules& schedules = any_schedule);

// load() and resolve(), with the faults of both in one message. The usual way in.
Job load_resolved(const JobFile& file, const std::vector<std::string>& overrides, std::int64_t ranks,
                  const Environment& environment = process_environment(),
                  const ScheduleRules& schedules = any_schedule);

// ConfigError if data.train is empty: check and plan need no data, training does.
void require_data(const JobSpec& spec);

}  // namespace escalier::config
