// Rotary positions in a config.json: `rope_theta` and `rope_scaling` as transformers 4 writes them,
// `rope_parameters` as version 5 does.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "config/job_spec.h"

namespace escalier::checkpoint {

// The keys that read_hf_rope() accounts for.
inline constexpr std::array<const char*, 4> hf_rope_keys = {"rope_theta", "rope_scaling", "rope_parameters",
                                                            "original_max_position_embeddings"};

// Throws DataError for another kind of scaling than none and llama3, a key that this has no place for, or two
// spellings that differ.
config::RopeConfig read_hf_rope(const nlohmann::json& root, const std::string& path,
                                std::int64_t max_positions);

// Adds both spellings.
void write_hf_rope(const config::RopeConfig& rope, nlohmann::ordered_json& root);

}  // namespace escalier::checkpoint
