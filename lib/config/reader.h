// Walks YAML maps and fills the structs behind a field table.
#pragma once

#include <map>
#include <string>

#include "config/fields.h"
#include "config/problems.h"
#include "config/yaml_value.h"

namespace escalier::config {

// Where each value came from, by key path: "preset small", "job.yaml:3:9", "--set", "derived from auto". A
// key that is not there has its default.
using Origins = std::map<std::string, std::string>;

class Reader {
 public:
    Reader(const FieldTable& table, const Environment& environment, Problems& problems, Origins& origins)
        : table_(table), environment_(environment), problems_(problems), origins_(origins) {}

    // A whole spec. False if it is no map, or the text no YAML.
    bool read_document(const YAML::Node& root, const Place& place);
    bool read_text(const std::string& text, const Place& place);
    // "parallel.tp=2", a key or a section, its value in YAML.
    void read_override(const std::string& assignment);
    // One value of a key of the table.
    void read_field(const Field& field, const YAML::Node& node, const Place& place);
    // What a document is, for the message about an empty one.
    void set_document(std::string what) { document_ = std::move(what); }
    // What origins say about the values that follow instead of a position: "preset small".
    void set_origin(std::string origin) { origin_ = std::move(origin); }

 private:
    void read_map(const YAML::Node& map, const FieldTable& table, const std::string& section,
                  const Place& place);
    void read_entry(const std::string& path, const YAML::Node& key, const YAML::Node& value,
                    const FieldTable& table, const Place& place);
    void refuse_key(const std::string& path, const YAML::Node& key, const FieldTable& table,
                    const Place& place);
    void read_sources(const SourcesField& sources, const Field& field, const YAML::Node& node,
                      const Place& place);
    void read_scaling(const ScalingField& scaling, const Field& field, const YAML::Node& node,
                      const Place& place);
    bool refuse_tags(const YAML::Node& node, const std::string& path, const Place& place);

    const FieldTable& table_;
    const Environment& environment_;
    Problems& problems_;
    Origins& origins_;
    std::string origin_;
    std::string document_ = "a job spec such as model: {preset: tiny}";
};

// The one document of a YAML text, or nothing after a problem was added.
std::optional<YAML::Node> parse_yaml(const std::string& text, const Place& place, Problems& problems);

}  // namespace escalier::config
