// Reads the axes and exclusions of a sweep. Every value is read as one of its key's, strictly, and kept as
// the YAML of what was read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/fields.h"
#include "config/problems.h"
#include "config/yaml_value.h"

namespace escalier::config {

class SweepReader {
 public:
    SweepReader(const Place& place, const Environment& environment, Problems& problems);
    SweepReader(const SweepReader&) = delete;
    SweepReader& operator=(const SweepReader&) = delete;

    void read_axes(const YAML::Node& map, std::vector<SweepAxis>& axes);
    void read_exclude(const YAML::Node& list, std::vector<std::vector<SweepSetting>>& exclude);

 private:
    // The field of a key that may vary; null after a problem was added.
    const Field* find_key(const YAML::Node& key, const std::string& where);
    std::optional<std::string> read_value(const Field& field, const YAML::Node& node);
    std::vector<std::string> read_values(const Field& field, const YAML::Node& list);
    void refuse(const YAML::Node& node, const std::string& where, const std::string& what);

    const Place& place_;
    const Environment& environment_;
    Problems& problems_;
    JobSpec spec_;  // that values are read into
    std::int64_t ranks_ = 1;
    FieldTable table_;  // of spec_ and ranks_
};

}  // namespace escalier::config
