// What writer and reader of manifest.json have to spell alike.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "checkpoint/manifest.h"

namespace escalier::checkpoint {

inline constexpr const char* manifest_format = "escalier-checkpoint";
inline constexpr int manifest_version = 1;

inline constexpr const char* manifest_hash_key = "xxh3_128";

// XXH3_128 of a line "KEY":VALUE of compact JSON for each other key, sorted as all keys in them.
std::string manifest_hash(const nlohmann::json& root);

// What is wrong with how the pieces of each tensor lie, as the end of a sentence; empty: each element is
// there once, and moments for all tensors or none.
std::string coverage_fault(const Manifest& manifest);

}  // namespace escalier::checkpoint
