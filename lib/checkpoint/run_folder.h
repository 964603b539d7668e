// The checkpoints in a run folder: RUN/step_NNNNNNNN/ and RUN/latest, the name of the newest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace escalier::checkpoint {

inline constexpr const char* latest_name = "latest";
inline constexpr const char* manifest_name = "manifest.json";
inline constexpr const char* config_name = "config.yaml";
inline constexpr const char* assets_name = "hf";  // files that came with an imported model

// Reads and checks a checkpoint's manifest, and that its files are there with the right sizes; a folder that
// is named as that of a step must be of this step. Throws IoError (66) when there is no such folder, else
// DataError.
Manifest read_manifest(const std::string& step_directory);

std::string step_directory_name(std::int64_t step);  // "step_00000010"
// The step of such a name; nothing for any other name.
std::optional<std::int64_t> step_of_directory(const std::string& name);

struct CheckpointEntry {
    std::string directory;  // RUN/step_NNNNNNNN
    std::int64_t step = 0;
    std::string fault;  // empty: the manifest is whole and its files are there with the right sizes
};
// By step; empty when there is no such folder. Throws IoError (66) when there is one that cannot be listed.
std::vector<CheckpointEntry> list_checkpoints(const std::string& run_directory);

struct Choice {
    std::string directory;  // empty: there is no whole checkpoint
    std::string reason;     // why this one: "named by RUN/latest"
    std::vector<std::string> warnings;
    std::string note;  // empty, or which whole one is of a later step, and how to take it
};
// The one that `latest` names, where it is whole; else the highest whole step up to that one: steps beyond
// are those of a run that was gone back on, or stopped in the instant before `latest` came to name them,
// which looks the same; else the highest of all. unusable: folders that were found to be damaged inside,
// which are passed over.
Choice newest_checkpoint(const std::string& run_directory, const std::vector<std::string>& unusable = {});

}  // namespace escalier::checkpoint
