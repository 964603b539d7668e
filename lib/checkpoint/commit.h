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
std::string unfinished_directory(const std::string& run_directory, std::int64_t step);

// Removes what saves that were killed left behind: step_*.tmp, .trash-*, latest.tmp.
void remove_leftovers(FileLayer& files, const std::string& run_directory);

// Writes config, assets and manifest into the unfinished folder, gives it its name and makes it the latest,
// all durable on return. A checkpoint of that step that was there lies in the trash then, whose path is
// returned. manifest.run is facts.run; config and assets
// are added to its files.
std::optional<std::string> commit(FileLayer& files, const std::string& run_directory, const SaveFacts& facts,
                                  const Manifest& manifest);

// Makes `latest` name the checkpoint of that step, which is there; durable on return.
void turn_latest(FileLayer& files, const std::string& run_directory, std::int64_t step);

}  // namespace escalier::checkpoint
