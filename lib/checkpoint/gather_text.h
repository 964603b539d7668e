// Exchange of texts of different lengths.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace escalier::checkpoint {

// The texts of all ranks, by rank, filled with spaces to the length of the longest. Collective.
std::vector<std::string> all_gather_text(const std::string& text, comm::Communicator& group,
                                         const char* label);

}  // namespace escalier::checkpoint
