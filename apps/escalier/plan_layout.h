// What a job's layout gains over even layers, by the times that a plan predicts with.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "config/job_spec.h"
#include "config/profile.h"
#include "schedule/action.h"

namespace escalier::apps {

struct LaidOut {
    std::vector<std::int64_t> layers;  // per stage
    double slowest_stage = 0;          // seconds of one micro-batch, forward and backward
    double step = 0;                   // seconds, with as many buffers as a schedule can use
};

struct LayoutGain {
    LaidOut even, own;
    // The slowest stage is as fast as can be with what each stage recomputes; none for models of more layers
    // than that is found for.
    std::optional<LaidOut> balanced;
};

// spec: resolved. schedule: its own.
LayoutGain layout_gain(const config::JobSpec& spec, const schedule::Schedule& schedule,
                       const config::ModelTimes& times);

// Nothing where there is one stage.
std::string layout_lines(const LayoutGain& gain);
nlohmann::ordered_json layout_json(const LayoutGain& gain);

// "[2, 3, 3, 2]"; of many stages how often each number stands there: "2 x62, 1 x2".
std::string layers_text(const std::vector<std::int64_t>& layers);

}  // namespace escalier::apps
