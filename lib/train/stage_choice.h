// Layers and recompute of the stages of a job, where its spec leaves them to a profile or to `auto`.
#pragma once

#include <cstdint>

#include "config/schedule_rules.h"

namespace escalier::train {

// Times are those of the profile that pipeline.layout names, else a roofline's. The slowest stage is as fast
// as can be (plan/balance.h) among what keeps within train.memory_gib, as estimated by plan/stage_memory.h; a
// rank gives each of its stages an equal share. What the spec fixes stays.
config::StageChoice choose_stages(const config::JobSpec& spec, std::int64_t stages);

}  // namespace escalier::train
