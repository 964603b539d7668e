// How checkpoints are removed: a rename takes one out of sight at once, its files follow.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/file_layer.h"

namespace escalier::checkpoint {

inline constexpr const char* trash_prefix = ".trash-";

// Renames RUN/name to RUN/.trash-name…; returns the new path.
std::string move_to_trash(FileLayer& files, const std::string& run_directory, const std::string& name);

// Renames RUN/step_NNNNNNNN to a name of the trash that says that it is to come back unless another
// checkpoint of that step takes its place; returns the new path.
std::string set_aside(FileLayer& files, const std::string& run_directory, std::int64_t step);
// The step of such a name; nothing for any other name.
std::optional<std::int64_t> step_set_aside(const std::string& name);

// Removes what was moved there. Returns a warning for each that could not be, for nothing is lost then.
std::vector<std::string> empty_trash(FileLayer& files, const std::vector<std::string>& paths);

}  // namespace escalier::checkpoint
