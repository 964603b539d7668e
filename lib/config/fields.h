// The keys of the job spec. One fields() list per struct, one line per key: name, member, rule, help. YAML
// reader,
// --set, dump, schema and help text all walk these lists, so a key cannot exist in one of them alone.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "config/job_spec.h"

namespace escalier::config {

// Limits that others than the keys themselves follow.
inline constexpr std::int64_t most_ranks = 1 << 20;
inline constexpr std::int64_t most_sequence = 1 << 24;  // tokens of a sample
inline constexpr std::int64_t most_sweep_points = 4096;
inline constexpr std::int64_t most_samples = (std::int64_t{1} << 31) - 1;  // of a batch

// Whole numbers in [min, max].
struct IntRule {
    std::int64_t min = std::numeric_limits<std::int64_t>::min();
    std::int64_t max = std::numeric_limits<std::int64_t>::max();
    bool zero_is_auto = false;  // YAML `auto` is kept as 0
};
// Numbers from min to max, as given and rounded to fp32; an open end is excluded.
struct RealRule {
    double min = -std::numeric_limits<double>::infinity();
    double max = std::numeric_limits<double>::infinity();
    bool min_open = false;
    bool max_open = false;
};
struct TextRule {
    std::vector<std::string> choices;  // empty: any text
    bool or_null = false;              // YAML null is kept as the empty text
};

struct IntField {
    std::int64_t* at;
    IntRule rule;
};
struct AutoIntField {
    AutoInt* at;
    IntRule rule;
};
struct RealField {
    double* at;
    RealRule rule;
};
struct BoolField {
    bool* at;
};
struct TextField {
    std::string* at;
    TextRule rule;
};
struct ArchField {
    Arch* at;
};
// balanced | even | the path of a profile | a list of layers per stage
struct LayoutField {
    PipelineConfig* at;
};
// auto | none | attention | full | {every: k} | one of these per stage
struct RecomputeField {
    TrainConfig* at;
};
// null, or a map of its own
struct ScalingField {
    std::optional<RopeScaling>* at;
};
// A list of maps
struct SourcesField {
    std::vector<DataSource>* at;
};
// A map from keys to lists of values
struct AxesField {
    std::vector<SweepAxis>* at;
};
// A list of maps from keys to values
struct ExcludeField {
    std::vector<std::vector<SweepSetting>>* at;
};

using FieldValue =
    std::variant<IntField, AutoIntField, RealField, BoolField, TextField, ArchField, LayoutField,
                 RecomputeField, ScalingField, SourcesField, AxesField, ExcludeField>;

struct Field {
    std::string path;  // "parallel.tp"
    FieldValue value;  // points into the struct that the table was made for
    std::string help;  // with the unit
};
struct Section {
    std::string path;  // "model.rope"
    std::string help;
};

// The keys of one struct, and of the sections below it, in the order of the spec.
class FieldTable {
 public:
    explicit FieldTable(std::string prefix = "") : prefix_(std::move(prefix)) {}

    void operator()(const char* name, FieldValue value, const char* help) {
        fields_.push_back({prefix_ + name, std::move(value), help});
    }
    template <class Config>
    void section(const char* name, Config& config, const char* help) {
        sections_.push_back({prefix_ + name, help});
        const std::string outer = prefix_;
        prefix_ += std::string(name) + ".";
        fields(*this, config);
        prefix_ = outer;
    }

    const std::vector<Field>& all() const& { return fields_; }
    const std::vector<Field>& all() && = delete;
    const std::vector<Section>& sections() const { return sections_; }
    const Field* find(const std::string& path) const;
    const Section* find_section(const std::string& path) const;
    // The names that may stand in section `path` ("" for the top), in order.
    std::vector<std::string> names_in(const std::string& path) const;

 private:
    std::string prefix_;
    std::vector<Field> fields_;
    std::vector<Section> sections_;
};

void fields(FieldTable& table, RunConfig& config);
void fields(FieldTable& table, RopeScaling& config);
void fields(FieldTable& table, RopeConfig& config);
void fields(FieldTable& table, ModelConfig& config);
void fields(FieldTable& table, ParallelConfig& config);
void fields(FieldTable& table, PipelineConfig& config);
void fields(FieldTable& table, TrainConfig& config);
void fields(FieldTable& table, OptimizerConfig& config);
void fields(FieldTable& table, LrConfig& config);
void fields(FieldTable& table, DataSource& config);
void fields(FieldTable& table, DataConfig& config);
void fields(FieldTable& table, EvalConfig& config);
void fields(FieldTable& table, CheckpointConfig& config);
void fields(FieldTable& table, TraceConfig& config);
void fields(FieldTable& table, LogConfig& config);
void fields(FieldTable& table, SweepConfig& config);
void fields(FieldTable& table, JobSpec& config);

template <class Config>
FieldTable table_of(Config& config, std::string prefix = "") {
    FieldTable table(std::move(prefix));
    fields(table, config);
    return table;
}

// What a key takes, in words: "a whole number of at least 1, or auto".
std::string wanted(const FieldValue& value);

}  // namespace escalier::config
