// A Hugging Face folder as the first checkpoint of a run.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/file_layer.h"
#include "checkpoint/hf_config.h"
#include "config/job_spec.h"

namespace escalier::checkpoint {

struct HfImportOptions {
    std::set<std::string> ignored_keys;  // of config.json, unknown to Escalier
    std::string tokenizer = "byte";      // data.tokenizer of the checkpoint's config
    std::string tool_version;
};

struct HfImportResult {
    std::string step_directory;
    config::ModelConfig model;
    std::int64_t seq_len = 0;        // that the checkpoint's config has
    std::int64_t max_positions = 0;  // that the model is made for
    std::size_t tensors = 0;
    std::vector<std::string> assets;
    std::vector<std::string> warnings;
};

// config.json of a folder. Throws IoError (66) where it is not there, else as parse_hf_config().
HfConfig read_hf_config(const std::string& directory, const std::set<std::string>& ignored = {});

// The model section alone, ready for a job file.
std::string model_section(const config::ModelConfig& model);

// Reads config.json and weights of `directory` and writes RUN/step_00000000, a checkpoint of weights alone,
// and RUN/model.yaml. run_directory: new or empty. Holds one tensor at a time. Throws IoError, DataError for
// what hf_config.h and hf_folder.h refuse, ConfigError for a run_directory that is not empty.
HfImportResult import_hf(const std::string& directory, const std::string& run_directory,
                         const HfImportOptions& options, FileLayer& files);

}  // namespace escalier::checkpoint
