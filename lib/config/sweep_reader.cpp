#include "config/sweep_reader.h"

#include <algorithm>

#include "config/dump.h"
#include "config/key_names.h"
#include "config/reader.h"

namespace escalier::config {

namespace {

constexpr const char* axes_key = "sweep.axes";
constexpr const char* exclude_key = "sweep.exclude";

// Keys that a sweep needs for itself, and those that say nothing about a run.
bool is_of_the_sweep(const std::string& key) {
    for (const char* own : {"version", "run.name", "run.dir", "checkpoint.resume", "log.jsonl"})
        if (key == own) return true;
    return key.compare(0, 6, "sweep.") == 0;
}

}  // namespace

SweepReader::SweepReader(const Place& place, const Environment& environment, Problems& problems)
    : place_(place), environment_(environment), problems_(problems) {
    fields(table_, spec_);
    table_("ranks", IntField{&ranks_, {1, most_ranks}}, "processes of the job");
}

void SweepReader::refuse(const YAML::Node& node, const std::string& where, const std::string& what) {
    problems_.add(place_.at(node.Mark()), where, what);
    problems_.doubt(where);
}

const Field* SweepReader::find_key(const YAML::Node& key, const std::string& where) {
    if (!key.IsScalar()) {
        refuse(key, where, "found " + found(key) + " as a key, wanted one such as parallel.pp");
        return nullptr;
    }
    const std::string& name = key.Scalar();
    const Field* field = table_.find(name);
    if (field && !is_of_the_sweep(name)) return field;
    if (field) {
        refuse(key, where, "found " + name + ", which is the same for all points; remove it");
    } else if (table_.find_section(name)) {
        refuse(key, where,
               "found the section " + name + ", wanted one of its keys with its path, such as " + name + "." +
                   table_.names_in(name).front());
    } else {
        refuse(key, where,
               "found " + found(key) + ", which is no key of the job; " + suggest(name, table_).text);
    }
    return nullptr;
}

std::optional<std::string> SweepReader::read_value(const Field& field, const YAML::Node& node) {
    spec_ = JobSpec{};
    Problems own;
    Origins origins;
    Reader(table_, environment_, own, origins).read_field(field, node, place_);
    for (const std::string& message : own.messages()) problems_.add("", "", message);
    if (own.empty()) return yaml_text(field.value);
    return std::nullopt;
}

std::vector<std::string> SweepReader::read_values(const Field& field, const YAML::Node& list) {
    std::vector<std::string> values;
    for (const YAML::Node& node : list) {
        const std::optional<std::string> value = read_value(field, node);
        if (!value) {
            problems_.doubt(axes_key);
        } else if (std::find(values.begin(), values.end(), *value) != values.end()) {
            refuse(node, axes_key, field.path + " takes " + *value + " twice; keep one");
        } else {
            values.push_back(*value);
        }
    }
    return values;
}

void SweepReader::read_axes(const YAML::Node& map, std::vector<SweepAxis>& axes) {
    axes.clear();
    std::int64_t points = 1;
    for (const auto& entry : map) {
        const Field* field = find_key(entry.first, axes_key);
        if (!field) continue;
        if (std::any_of(axes.begin(), axes.end(),
                        [&](const SweepAxis& axis) { return axis.key == field->path; })) {
            refuse(entry.first, axes_key, field->path + " is given twice; keep one");
            continue;
        }
        const YAML::Node& list = entry.second;
        if (!list.IsSequence() || list.size() == 0) {
            refuse(list, axes_key,
                   "found " + (list.IsSequence() ? "an empty list" : found(list)) + " for " + field->path +
                       ", wanted a list of its values such as [1, 2]");
            continue;
        }
        const auto most = static_cast<std::size_t>(most_sweep_points);
        if (list.size() > most || points * static_cast<std::int64_t>(list.size()) > most_sweep_points) {
            refuse(entry.first, axes_key,
                   "with the " + std::to_string(list.size()) + " values of " + field->path +
                       " there are more than " + std::to_string(most_sweep_points) +
                       " points; sweep fewer values at once");
            continue;
        }
        points *= static_cast<std::int64_t>(list.size());
        axes.push_back({field->path, read_values(*field, list)});
    }
}

void SweepReader::read_exclude(const YAML::Node& list, std::vector<std::vector<SweepSetting>>& exclude) {
    exclude.clear();
    for (std::size_t i = 0; i < list.size(); ++i) {
        const std::string where = std::string(exclude_key) + "[" + std::to_string(i) + "]";
        if (!list[i].IsMap() || list[i].size() == 0) {
            refuse(list[i], where,
                   "found " + (list[i].IsMap() ? "an empty map" : found(list[i])) +
                       ", wanted a map such as {parallel.pp: 2, train.micro_batch: 4}");
            problems_.doubt(exclude_key);
            continue;
        }
        std::vector<SweepSetting> settings;
        for (const auto& entry : list[i]) {
            const Field* field = find_key(entry.first, where);
            const std::optional<std::string> value = field ? read_value(*field, entry.second) : std::nullopt;
            if (!value) {
                problems_.doubt(exclude_key);
                continue;
            }
            const auto same = [&](const SweepSetting& setting) { return setting.key == field->path; };
            if (std::any_of(settings.begin(), settings.end(), same))
                refuse(entry.first, where, field->path + " is given twice; keep one");
            else
                settings.push_back({field->path, *value});
        }
        exclude.push_back(std::move(settings));
    }
}

}  // namespace escalier::config
