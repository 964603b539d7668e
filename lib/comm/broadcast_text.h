// Texts that one rank has read, for all.
#pragma once

#include <string>

#include "comm/communicator.h"

namespace escalier::comm {

// Rank 0's text, on all ranks of the group. Collective.
void broadcast_text(std::string& text, Communicator& group, const char* label);

}  // namespace escalier::comm
