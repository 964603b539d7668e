// A Hugging Face config.json as a model section, and back: GPT-2, Llama, Qwen2 and Qwen3.
//
// Every key is accounted for. A key that changes what the model computes is either carried into the model or,
// where Escalier has nothing like it, refused by name with its value. Keys that are known to change nothing
// (token ids, generation settings, names, those that begin with an underscore) are passed over. An unknown
// key is refused unless its value is null or the caller lists it. Absent keys have the defaults of
// transformers.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "config/job_spec.h"

namespace escalier::checkpoint {

struct HfConfig {
    config::ModelConfig model;
    std::int64_t max_positions = 0;     // the longest sequence that the model is made for, in tokens
    std::string dtype;                  // "bfloat16"; empty: the file names none
    std::vector<std::string> warnings;  // what training will do otherwise than transformers
};

// text: of the file; path: for messages. ignored: unknown keys to pass over. Throws DataError that names
// file, key and value.
HfConfig parse_hf_config(const std::string& text, const std::string& path,
                         const std::set<std::string>& ignored = {});

// The text of a config.json that transformers 4 and 5 read. dtype: "float32", "bfloat16" or "float16" of the
// weights. seq_len: of training, the context where neither the model
// nor the import names one. imported: the text of the
// config.json that the model came from, for token ids and the like; empty: none. Throws DataError for a model
// that is of no family.
std::string hf_config_text(const config::ModelConfig& model, const std::string& dtype, std::int64_t seq_len,
                           const std::string& imported);

}  // namespace escalier::checkpoint
