// A file from its start to its end, where a read that fails is no end.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace escalier::checkpoint {

// Hands the file's bytes on, block after block. Throws IoError (read) naming the file and the system's error.
void read_blocks(const std::string& path,
                 const std::function<void(const char* data, std::size_t bytes)>& take);

}  // namespace escalier::checkpoint
