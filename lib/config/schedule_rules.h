// What the rules of a job spec ask about schedules. The table of schedules belongs to a module beside this
// one, so whoever loads a spec that will run hands the answers in (train/schedule_rules.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/job_spec.h"

namespace escalier::config {

// Layers and recompute of every stage, chosen by their times within train.memory_gib.
struct StageChoice {
    std::vector<std::int64_t> layers;
    std::vector<Recompute> recompute;
    std::string key;  // what is wrong, and with which key; empty: nothing
    std::string problem;
};
// spec: resolved, but for layout and recompute where these are left to choice. May throw ConfigError or
// IoError for a profile.
using ChooseStages = std::function<StageChoice(const JobSpec& spec, std::int64_t stages)>;

struct ScheduleAnswer {
    std::int64_t chunks = 1;  // stages per pipeline rank, counting both copies of a model that has two
    std::int64_t stages = 1;  // of the model
    std::string file_text;    // what pipeline.file holds, where the schedule takes one
    std::string key;          // what is wrong, and with which key; empty: nothing
    std::string problem;
    // For layouts by a profile and recompute: auto; null: a layout by FLOPs, and no recompute.
    ChooseStages choose_stages = nullptr;
};

// micro_batches: nothing where another fault leaves them open. May throw IoError for a file.
using ScheduleRules = std::function<ScheduleAnswer(const PipelineConfig&, std::int64_t pp,
                                                   std::optional<std::int64_t> micro_batches)>;

// Any schedule, with as many chunks as the key says or one: for specs that run no pipeline.
ScheduleAnswer any_schedule(const PipelineConfig& pipeline, std::int64_t pp,
                            std::optional<std::int64_t> micro_batches);

}  // namespace escalier::config
