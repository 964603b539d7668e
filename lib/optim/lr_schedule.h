// The learning rate as a pure function of the step, which counts from 1.
//
//   warm-up       step <= warmup_steps: peak * step / warmup_steps
//   constant      peak
//   linear        peak + (min - peak) * p          p = (step - warmup_steps) / (decay_steps - warmup_steps)
//   cosine        min + (peak - min) * (1 + cos(pi * p)) / 2
//   wsd           peak until train_steps - decay_steps, then linear to min at train_steps (warm-up, stable,
//                 decay: Hu et al., "MiniCPM", 2024)
//   inverse_sqrt  max(min, peak * sqrt(max(warmup_steps, 1) / step))  (Vaswani et al. 2017)
//
// p = 1 gives exactly min, and so does every later step. lr.min has no meaning for constant.
#pragma once

#include <cstdint>

#include "config/job_spec.h"

namespace escalier::optim {

// config: resolved (decay_steps has a value). Throws ConfigError for an unknown schedule.
double learning_rate(const config::LrConfig& config, std::int64_t train_steps, std::int64_t step);

}  // namespace escalier::optim
