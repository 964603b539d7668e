// What saves that were killed left in a run folder.
#pragma once

#include <string>

#include "checkpoint/file_layer.h"

namespace escalier::checkpoint {

// In a run folder: what ranks try to write in before the first save.
inline constexpr const char* probe_name = ".probe.tmp";

// Removes step_*.tmp, .trash-*, latest.tmp, .probe.tmp. A whole checkpoint that was set aside for a newer one
// of its step, which then did not come, gets its name back. Throws IoError (write).
void remove_leftovers(FileLayer& files, const std::string& run_directory);

}  // namespace escalier::checkpoint
