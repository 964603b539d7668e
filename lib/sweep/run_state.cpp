#include "sweep/run_state.h"

#include <filesystem>

#include "checkpoint/run_folder.h"
#include "config/dump.h"
#include "config/load.h"
#include "core/error.h"
#include "report/run_data.h"
#include "sweep/run_metrics.h"

namespace escalier::sweep {

namespace fs = std::filesystem;

namespace {

// Keys that say nothing about what is computed.
bool is_beside_the_point(const std::string& key) {
    for (const char* start : {"version", "run.name", "run.dir", "run.max_minutes", "run.comm_timeout_s",
                              "log.", "checkpoint.", "eval.", "data.allow_change", "sweep."})
        if (key.compare(0, std::string(start).size(), start) == 0) return true;
    return false;
}

// The first value that is another; empty if there is none.
std::string difference(config::JobSpec there, config::JobSpec here) {
    const config::FieldTable before = config::table_of(there), now = config::table_of(here);
    for (std::size_t i = 0; i < now.all().size(); ++i) {
        const std::string& key = now.all()[i].path;
        const std::string was = config::yaml_text(before.all()[i].value),
                          is = config::yaml_text(now.all()[i].value);
        if (was != is && is != "auto" && !is_beside_the_point(key))
            return key + " was " + was + " and is " + is;
    }
    return "";
}

std::string difference_in(const std::string& config_file, const config::JobSpec& spec) {
    if (!fs::exists(config_file)) return "";  // it did not come so far
    try {
        return difference(config::load(config::read_job_file(config_file)).spec, spec);
    } catch (const Error& error) {
        return error.what();
    }
}

}  // namespace

RunState run_state(const std::string& run_folder, const config::JobSpec& spec) {
    RunState state;
    if (!fs::is_directory(run_folder)) return state;
    if (report::is_locked(run_folder)) {
        state.stage = RunStage::running;
        return state;
    }
    state.has_checkpoint = !checkpoint::list_checkpoints(run_folder).empty();
    state.difference = difference_in(run_folder + "/config.yaml", spec);
    if (!state.difference.empty()) {
        state.stage = RunStage::other_job;
        return state;
    }
    const RunMetrics metrics = read_run_metrics(run_folder);
    const bool all_steps = !metrics.steps.empty() && metrics.steps.rbegin()->first >= spec.train.steps;
    state.stage = metrics.exit_code == 0 && all_steps ? RunStage::finished : RunStage::interrupted;
    return state;
}

}  // namespace escalier::sweep
