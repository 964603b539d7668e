#include "optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/check.h"

namespace escalier::optim {

namespace {

// The share of the way from `begin` to `end` that `step` has gone, in [0, 1].
double progress(std::int64_t begin, std::int64_t end, std::int64_t step) {
    if (step >= end) return 1.0;
    if (step <= begin) return 0.0;
    return static_cast<double>(step - begin) / static_cast<double>(end - begin);
}

double linear(double from, double to, double share) {
    return share >= 1.0 ? to : from + (to - from) * share;
}

double cosine(double from, double to, double share) {
    return share >= 1.0 ? to : to + (from - to) * 0.5 * (1.0 + std::cos(std::numbers::pi * share));
}

}  // namespace

double learning_rate(const config::LrConfig& config, std::int64_t train_steps, std::int64_t step) {
    ESCALIER_CHECK(step >= 1 && config.decay_steps.has_value(), "steps count from 1, in a resolved spec");
    const std::int64_t warmup = config.warmup_steps;
    const std::int64_t decay = *config.decay_steps;
    if (step < warmup) return config.peak * static_cast<double>(step) / static_cast<double>(warmup);
    if (step == warmup) return config.peak;
    if (config.schedule == "constant") return config.peak;
    if (config.schedule == "linear") return linear(config.peak, config.min, progress(warmup, decay, step));
    if (config.schedule == "cosine") return cosine(config.peak, config.min, progress(warmup, decay, step));
    if (config.schedule == "wsd")
        return linear(config.peak, config.min,
                      progress(std::max(warmup, train_steps - decay), train_steps, step));
    if (config.schedule == "inverse_sqrt") {
        const double reference = static_cast<double>(std::max<std::int64_t>(warmup, 1));
        return std::max(config.min, config.peak * std::sqrt(reference / static_cast<double>(step)));
    }
    throw ConfigError("lr.schedule: unknown schedule '" + config.schedule +
                      "'; known: constant, linear, cosine, wsd, inverse_sqrt");
}

}  // namespace escalier::optim
