// A spec as YAML that reads back to the same spec.
#pragma once

#include <string>

#include "config/fields.h"
#include "config/load.h"

namespace escalier::config {

// With origins, each line ends in a comment that says where its value came from.
std::string dump(const JobSpec& spec);
std::string dump(const JobSpec& spec, const Origins& origins);

// The model section alone, for the metadata of weight files; parse_model() of load.h reads it.
std::string dump_model(const ModelConfig& model);

// Every key of a table, section by section.
std::string dump(const FieldTable& table);

// One value as YAML on one line.
std::string yaml_text(const FieldValue& value);

}  // namespace escalier::config
