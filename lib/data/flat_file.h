// Formats whose tokens lie in one piece: llm.c .bin (1024-byte header) and headerless raw16 / raw32.
#pragma once

#include <memory>
#include <string>

#include "core/mapped_file.h"
#include "data/token_file.h"

namespace escalier::data {

// Whether the first two header words are those of any llm.c file.
bool has_llmc_magic(const MappedFile& file);

// Both throw DataError when header or size are wrong. A raw file that is plainly something else (llm.c
// header, the .bin of a Megatron pair, 32-bit ids declared as 16-bit) is refused.
std::unique_ptr<TokenFile> open_llmc_file(const std::string& path);
std::unique_ptr<TokenFile> open_raw_file(const std::string& path, FileFormat format);

}  // namespace escalier::data
