#include "sweep_predict.h"

#include "config/fields.h"
#include "config/profile.h"
#include "config/yaml_file.h"
#include "core/error.h"
#include "device_here.h"
#include "plan/hardware.h"
#include "plan/part_times.h"
#include "plan/prediction.h"
#include "schedule/simulate.h"
#include "train/schedule_rules.h"
#include "train/stage_costs.h"

namespace escalier::apps {

namespace {

constexpr double milliseconds = 1e3;

double set_step_ms(const config::JobSpec& spec) {
    return milliseconds *
           schedule::simulate(train::make_schedule(spec), train::predicted_durations(spec)).makespan;
}

double step_ms(const config::JobSpec& spec, const config::ModelTimes& times) {
    return milliseconds * plan::predict(spec, train::make_schedule(spec), times, 0).step;
}

std::optional<double> step_ms(const config::JobSpec& spec, const config::Profile& profile,
                              const std::string& file) {
    try {
        config::require_same_work(profile, spec, file);
    } catch (const ConfigError&) {
        return std::nullopt;  // of other sizes than those that were measured
    }
    return step_ms(spec, profile.times);
}

}  // namespace

StepPredictor step_predictor(const std::string& hardware, const std::string& profile) {
    if (!profile.empty()) {
        const config::Profile measured =
            config::parse_profile(config::read_yaml_file(profile, config::profile_kind));
        return [measured, profile](const config::JobSpec& spec) -> std::optional<double> {
            return spec.run.clock == "sleep" ? set_step_ms(spec) : step_ms(spec, measured, profile);
        };
    }
    plan::Hardware named = plan::built_in_hardware(hardware.empty() ? "cpu" : hardware);
    const bool guessed = hardware.empty();
    if (guessed) named.node.gpus = config::most_ranks;  // this machine, as escalier plan has it
    const std::string here = guessed ? device_here() : "";
    return [named, guessed, here](const config::JobSpec& spec) -> std::optional<double> {
        if (spec.run.clock == "sleep") return set_step_ms(spec);
        const std::string& device = spec.run.device == "auto" ? here : spec.run.device;
        if (guessed && device == "cuda") return std::nullopt;
        return step_ms(spec, plan::roofline_times(spec, named));
    };
}

}  // namespace escalier::apps
