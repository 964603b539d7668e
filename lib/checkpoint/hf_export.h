// Weights as a folder that transformers loads: config.json, safetensors files, tokenizer files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/file_layer.h"
#include "checkpoint/tensor_source.h"
#include "config/job_spec.h"

namespace escalier::checkpoint {

// Files beside the weights that an import carries along and an export writes back. config.json is among them
// for the import alone: the export makes its own and takes token ids and the like from it.
const std::vector<std::string>& hf_asset_names();
inline constexpr const char* hf_config_name = "config.json";

struct HfExportOptions {
    std::string dtype = "fp32";                     // fp32 | bf16 | fp16
    std::uint64_t max_shard_bytes = 5'000'000'000;  // of tensors per file; one tensor may be more
};

struct HfExportResult {
    std::size_t files = 0;  // of weights
    std::size_t tensors = 0;
    std::uint64_t bytes = 0;          // of tensors
    std::vector<std::string> assets;  // that were carried along
};

// weights: exactly the tensors of `model`, which is resolved. seq_len: of training. assets_directory: where
// the import's files lie; empty: none. directory: new or empty; it is there whole or not at all. Holds some
// MiB of one tensor at a time. Throws IoError (write), DataError for weights of another model or out of the
// range of dtype, ConfigError for a directory that is not empty.
HfExportResult export_hf(const TensorSource& weights, const config::ModelConfig& model, std::int64_t seq_len,
                         const std::string& assets_directory, const std::string& directory,
                         const HfExportOptions& options, FileLayer& files);

}  // namespace escalier::checkpoint
