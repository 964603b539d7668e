// How checkpoints are removed: a rename takes one out of sight at once, its files follow.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/file_layer.h"

namespace escalier::checkpoint {

inline constexpr const char* trash_prefix = ".trash-";

// Renames RUN/name to RUN/.trash-name…; returns the new path.
std::string move_to_trash(FileLayer& files, const std::string& run_directory, const std::string& name);

// Removes what was moved there. Returns a warning for each that could not be, for nothing is lost then.
std::vector<std::string> empty_trash(FileLayer& files, const std::vector<std::string>& paths);

}  // namespace escalier::checkpoint
