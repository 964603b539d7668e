// JSON from files of others: equal keys, deep nesting and what follows the value are faults, not surprises.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace escalier::checkpoint {

// What is wrong, as the end of a sentence about the text: "names 'vocab_size' twice".
struct JsonFault : std::runtime_error {
    explicit JsonFault(const std::string& fault) : std::runtime_error(fault) {}
};

// Throws JsonFault.
nlohmann::json parse_strict_json(std::string_view text);

}  // namespace escalier::checkpoint
