// What the keys of a config.json mean to Escalier, beyond those that become part of the model.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace escalier::checkpoint {

// Families of transformers, by model_type.
struct HfFamily {
    std::string model_type;
    std::vector<std::string> architectures;  // first: what is written
};
const std::vector<HfFamily>& hf_families();

// A key whose other values ask for what Escalier does not compute.
struct FixedKey {
    const char* name;
    std::vector<nlohmann::json> accepted;
    const char* reason;  // "Escalier has no …"
};
const std::vector<FixedKey>& fixed_keys(bool gpt2);

// A key that changes nothing in what the model computes.
bool is_harmless_key(const std::string& name);

}  // namespace escalier::checkpoint
