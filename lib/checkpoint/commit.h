// The last part of a save, by one process: files of tensors that are durable become a checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/file_layer.h"
#include "checkpoint/manifest.h"

namespace escalier::checkpoint {

// What is saved beside the tensors.
struct SaveFacts {
    RunState run;
    std::string config_text;               // becomes config.yaml
    std::string assets_directory;          // its plainly named files are copied to hf/; empty: none
    std::vector<std::string> asset_names;  // of these names alone; empty: all
};

// RUN/step_NNNNNNNN.tmp, where files lie until the commit.
inline constexpr const char* unfinished_suffix = ".tmp";
std::string unfinished_directory(const std::string& run_directory, std::int64_t step);

// Writes config, assets and manifest into the unfinished folder, gives it its name and makes it the latest,
// all durable on return. Returns where a checkpoint of that step that was there lies then, to be removed.
// Where it fails, a whole one has the name if one had it before. manifest.run is facts.run; config and assets
// are added to its files. Throws IoError.
std::optional<std::string> commit(FileLayer& files, const std::string& run_directory, const SaveFacts& facts,
                                  const Manifest& manifest);

// Makes `latest` name the checkpoint of that step, which is there; durable on return.
void turn_latest(FileLayer& files, const std::string& run_directory, std::int64_t step);

}  // namespace escalier::checkpoint
