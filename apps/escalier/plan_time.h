// The predicted step of a planned job, as a table and as JSON.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "config/profile.h"
#include "plan/hardware.h"
#include "plan/prediction.h"
#include "plan_layout.h"
#include "schedule/simulate.h"

namespace escalier::apps {

// What the command line says about the machine.
struct TimeArguments {
    std::string gpu;       // a name of configs/hardware; empty: not given
    std::string hardware;  // path of such a file; empty: not given
    std::string profile;   // path of a profile; empty: not given

    bool names_machine() const { return !gpu.empty() || !hardware.empty(); }
};
// measure: the flag that predicts nothing.
void add_time_options(CLI::App& command, TimeArguments& arguments, CLI::Option* measure);

// What parts of the model take, and whence that is known.
struct TimeSource {
    plan::Hardware hardware;
    std::string hardware_name;
    std::optional<config::Profile> profile;
    std::string profile_path;

    bool named = false;  // whether the command line says which

    // Whether actions last as long as run.layer_ms says: the clock sleeps, and no machine is named.
    bool set(const config::JobSpec& spec) const { return !named && spec.run.clock == "sleep"; }
    // The set ones, the profile's, or a roofline's; spec: resolved.
    config::ModelTimes times(const config::JobSpec& spec) const;
    double peak(const config::JobSpec& spec) const;  // FLOP/s of one device, 0: unknown
    std::string text(const config::JobSpec& spec) const;
};
// device: "cpu" or "cuda"; without --gpu and --hardware it is the CPU's file, or that of an H100. Throws
// ConfigError or IoError.
TimeSource read_time_source(const TimeArguments& arguments, const std::string& device);

struct PlannedTime {
    plan::Prediction prediction;
    schedule::Durations stages;  // seconds of one micro-batch
    LayoutGain layout;
};
// spec: resolved. Throws ConfigError where the profile is of other work.
PlannedTime plan_time(const TimeSource& source, const config::JobSpec& spec,
                      const schedule::Schedule& schedule, const std::vector<schedule::Program>& programs);

std::string time_page(const TimeSource& source, const config::JobSpec& spec, const PlannedTime& time);
nlohmann::ordered_json time_json(const TimeSource& source, const config::JobSpec& spec,
                                 const PlannedTime& time);

// "1.234 s", "12.34 ms"
std::string seconds_text(double seconds);

}  // namespace escalier::apps
