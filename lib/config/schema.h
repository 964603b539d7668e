// JSON Schema (draft 2020-12) of the job spec, for editors that check YAML while it is typed.
#pragma once

#include <nlohmann/json.hpp>

namespace escalier::config {

nlohmann::ordered_json json_schema();

}  // namespace escalier::config
