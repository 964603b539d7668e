// How checkpoints are removed: a rename takes one out of sight at once, its files follow.
#pragma once

#include <string>

#include "checkpoint/file_layer.h"

namespace escalier::checkpoint {

inline constexpr const char* trash_prefix = ".trash-";

// Renames RUN/name to RUN/.trash-name…; returns the new path, which remove_tree() then takes.
std::string move_to_trash(FileLayer& files, const std::string& run_directory, const std::string& name);

}  // namespace escalier::checkpoint
