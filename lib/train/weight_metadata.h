// The metadata of a weight file: enough to rebuild the model and its tokenizer in another process.
#pragma once

#include <string>

#include "checkpoint/safetensors.h"
#include "config/job_spec.h"

namespace escalier::train {

checkpoint::Metadata weight_metadata(const config::JobSpec& spec);

struct WeightDescription {
    config::ModelConfig model;
    std::string tokenizer;     // as data.tokenizer
    std::int64_t seq_len = 0;  // of training
};

// Every rule of a job spec holds for the model and its length. Throws ConfigError.
WeightDescription described(const config::ModelConfig& model, const std::string& tokenizer,
                            std::int64_t seq_len);

// Throws DataError for a file that Escalier did not write (or an older one), naming it.
WeightDescription read_weight_description(const std::string& path);

}  // namespace escalier::train
