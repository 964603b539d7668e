// The keys of the job spec, for editors and for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace escalier::config {

// JSON Schema (draft 2020-12), for editors that check YAML while it is typed.
nlohmann::ordered_json json_schema();

// The same for people: every key with its default, what it takes, and what it is for.
std::string key_reference();

}  // namespace escalier::config
