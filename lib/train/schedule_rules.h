// What the rules of a job spec ask about schedules (config/schedule_rules.h), answered from the table of
// schedule kinds and, for schedule csv, from the user's file.
#pragma once

#include <functional>
#include <string>

#include "config/schedule_rules.h"
#include "schedule/action.h"

namespace escalier::train {

// The bytes of a file. Throws IoError (exit 66) naming it when it is absent, unreadable or not a regular
// file.
std::string read_schedule_file(const std::string& path);

// read: how pipeline.file is read, only once for a spec that is resolved again. A schedule of the user's own
// must fit the job's sizes and be proved.
config::ScheduleRules schedule_rules(
    std::function<std::string(const std::string& path)> read = read_schedule_file);

// The schedule of a resolved spec. Throws ConfigError.
schedule::Schedule make_schedule(const config::JobSpec& spec);

// "interleaved, 2 chunks per rank", "schedule of order.csv, 2 chunks per rank"
std::string schedule_text(const config::JobSpec& spec);

}  // namespace escalier::train
