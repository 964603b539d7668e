#include "sweep/expand.h"

#include <algorithm>
#include <filesystem>

#include "config/dump.h"
#include "config/sweep_rules.h"
#include "config/validate.h"
#include "core/error.h"
#include "sweep/point_name.h"

namespace escalier::sweep {

namespace {

constexpr const char* ranks_key = "ranks";

// Whether --set gives `key`, or a section that it stands in.
bool is_set(const std::string& key, const std::vector<std::string>& overrides) {
    return std::any_of(overrides.begin(), overrides.end(), [&](const std::string& assignment) {
        const std::string given = assignment.substr(0, assignment.find('='));
        return given == key || key.compare(0, given.size() + 1, given + ".") == 0;
    });
}

// An axis with one value: that of the command line.
void fix_axes(std::vector<config::SweepAxis>& axes, config::JobSpec base, const SweepQuestion& question) {
    const config::FieldTable table = config::table_of(base);
    for (config::SweepAxis& axis : axes) {
        if (axis.key == ranks_key && question.ranks) axis.values = {std::to_string(*question.ranks)};
        if (axis.key != ranks_key && is_set(axis.key, question.overrides))
            axis.values = {config::yaml_text(table.find(axis.key)->value)};
    }
}

bool excluded(const std::vector<config::SweepSetting>& settings, const config::SweepConfig& sweep) {
    const auto has = [&](const config::SweepSetting& wanted) {
        return std::find(settings.begin(), settings.end(), wanted) != settings.end();
    };
    return std::any_of(sweep.exclude.begin(), sweep.exclude.end(),
                       [&](const auto& entry) { return std::all_of(entry.begin(), entry.end(), has); });
}

// The combination of that index, the last axis fastest.
std::vector<config::SweepSetting> combination(const std::vector<config::SweepAxis>& axes, std::size_t index) {
    std::vector<config::SweepSetting> settings(axes.size());
    for (std::size_t i = axes.size(); i-- > 0;) {
        settings[i] = {axes[i].key, axes[i].values[index % axes[i].values.size()]};
        index /= axes[i].values.size();
    }
    return settings;
}

// What the rules said, on one line, without the places of values that the user did not write there.
std::string reason_of(const std::string& message) {
    std::string text = message;
    const std::size_t list = text.find("\n  ");
    if (list != std::string::npos) text = text.substr(list + 3);
    for (std::size_t at; (at = text.find("\n  ")) != std::string::npos;) text.replace(at, 3, "; ");
    const std::string place = "--set: ";
    for (std::size_t at; (at = text.find(place)) != std::string::npos;) text.erase(at, place.size());
    return text;
}

std::int64_t ranks_of(const Point& point, const SweepQuestion& question, const config::ParallelConfig& grid) {
    for (const config::SweepSetting& setting : point.settings)
        if (setting.key == ranks_key) return std::stoll(setting.value);
    if (question.ranks) return *question.ranks;
    return grid.tp * grid.pp * std::max<std::int64_t>(grid.dp, 1);
}

void resolve(Point& point, const Sweep& sweep, const SweepQuestion& question) {
    try {
        config::Problems faults;
        const config::Job job =
            config::load(question.file, overrides_of(sweep, point), question.environment, faults);
        point.ranks = ranks_of(point, question, job.spec.parallel);
        faults.throw_if_any();
        if (point.ranks > config::most_ranks)
            throw ConfigError("its grid needs " + std::to_string(point.ranks) + " processes, more than " +
                              std::to_string(config::most_ranks));
        point.spec = config::resolve(job, point.ranks, question.schedules).spec;
        point.spec->sweep = {};
    } catch (const Error& error) {
        point.spec.reset();
        point.reason = reason_of(error.what());
    }
}

}  // namespace

std::int64_t Sweep::count() const {
    return std::count_if(points.begin(), points.end(), [](const Point& point) { return point.possible(); });
}

std::vector<std::string> overrides_of(const Sweep& sweep, const Point& point) {
    std::vector<std::string> overrides;
    for (const config::SweepSetting& setting : point.settings)
        if (setting.key != ranks_key) overrides.push_back(setting.key + "=" + setting.value);
    overrides.insert(overrides.end(), sweep.overrides.begin(), sweep.overrides.end());
    std::string folder = sweep.folder;
    overrides.push_back("run.dir=" + config::yaml_text(config::TextField{&folder, {}}));
    overrides.push_back("run.name=" + point.name);
    return overrides;
}

Sweep expand(const SweepQuestion& question) {
    config::Problems problems;
    config::Job base = config::load(question.file, question.overrides, question.environment, problems);
    config::apply_sweep_rules(base, problems);
    problems.throw_if_any();
    if (base.spec.sweep.axes.empty())
        throw ConfigError("job file " + question.file.path +
                          " sweeps over nothing; give it axes, such as sweep: {axes: {parallel.pp: [1, 2]}}");
    if (!base.spec.log.jsonl)
        throw ConfigError("log.jsonl is false, but a sweep reads the metrics of its runs; set it to true");

    Sweep sweep;
    sweep.job = question.file.path;
    sweep.folder = (std::filesystem::path(base.spec.run.dir) / (base.spec.run.name + "-sweep")).string();
    sweep.overrides = question.overrides;
    sweep.axes = base.spec.sweep.axes;
    fix_axes(sweep.axes, base.spec, question);
    std::size_t combinations = 1;
    std::int64_t next_index = 0;
    for (const config::SweepAxis& axis : sweep.axes) combinations *= axis.values.size();
    for (std::size_t i = 0; i < combinations; ++i) {
        Point point;
        point.settings = combination(sweep.axes, i);
        if (excluded(point.settings, base.spec.sweep)) continue;
        point.name = point_name(point.settings);
        resolve(point, sweep, question);
        if (point.possible()) point.index = next_index++;
        sweep.points.push_back(std::move(point));
    }
    if (sweep.points.empty())
        throw ConfigError("sweep.exclude of " + question.file.path +
                          " leaves no point over; remove an entry");
    return sweep;
}

}  // namespace escalier::sweep
