// model.safetensors.index.json: which file of a sharded model holds which tensor.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace escalier::checkpoint {

// File by tensor. text: of the file; path: for messages. Throws DataError for text that is no index, and for
// a file name that leads out of the folder.
std::map<std::string, std::string> parse_hf_index(std::string_view text, const std::string& path);

}  // namespace escalier::checkpoint
