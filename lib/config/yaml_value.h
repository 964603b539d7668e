// Strict reading of single YAML values. YAML's own conversions are not used: they read 010 as 8 and let other
// slips pass.
#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <optional>
#include <string>

#include "config/fields.h"
#include "config/problems.h"

namespace escalier::config {

// The value of an environment variable; nothing when it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

// Where the YAML that is being read stands: a file, or one --set.
struct Place {
    std::string name;       // "job.yaml", or "--set parallel.tp=2"
    bool positions = true;  // whether line and column mean anything to the user
    std::string at(const YAML::Mark& mark) const;
};

// "8", "a list", "a map", "nothing"
std::string found(const YAML::Node& node);

// Reads one value into the struct that the field points into. Faults go to problems, under the key's path.
class ValueReader {
 public:
    ValueReader(const Place& place, const Environment& environment, Problems& problems)
        : place_(place), environment_(environment), problems_(problems) {}

    // True if the value was read. Maps of their own (rope.scaling, entries of data.train, sweep.axes) are
    // the caller's.
    bool read(const Field& field, const YAML::Node& node);

 private:
    struct Scalar {
        std::string text;
        bool quoted;
    };
    bool scalar(const YAML::Node& node, const Field& field, Scalar& out);
    std::optional<std::string> expand(const std::string& text, std::string& fault) const;
    bool fail(const YAML::Node& node, const Field& field, const std::string& hint = "");
    bool whole_number(const YAML::Node& node, const Field& field, const IntRule& rule, std::int64_t& out);

    bool read_value(const IntField& f, const Field& field, const YAML::Node& node);
    bool read_value(const AutoIntField& f, const Field& field, const YAML::Node& node);
    bool read_value(const RealField& f, const Field& field, const YAML::Node& node);
    bool read_value(const BoolField& f, const Field& field, const YAML::Node& node);
    bool read_value(const TextField& f, const Field& field, const YAML::Node& node);
    bool read_value(const ArchField& f, const Field& field, const YAML::Node& node);
    bool read_value(const LayoutField& f, const Field& field, const YAML::Node& node);
    bool read_value(const RecomputeField& f, const Field& field, const YAML::Node& node);
    bool read_value(const ScalingField& f, const Field& field, const YAML::Node& node);
    bool read_value(const SourcesField& f, const Field& field, const YAML::Node& node);
    bool read_value(const AxesField& f, const Field& field, const YAML::Node& node);
    bool read_value(const ExcludeField& f, const Field& field, const YAML::Node& node);
    bool recompute_entry(const YAML::Node& node, const Field& field, Recompute& kind, std::int64_t& every);

    const Place& place_;
    const Environment& environment_;
    Problems& problems_;
};

}  // namespace escalier::config
