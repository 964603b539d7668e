// Megatron indexed data sets: PREFIX.bin (ids back to back) and PREFIX.idx (formats.md section 1.1).
#pragma once

#include <memory>
#include <string>

#include "core/mapped_file.h"
#include "data/token_file.h"

namespace escalier::data {

inline constexpr char megatron_magic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
inline constexpr std::int64_t megatron_header_bytes = 34;

// The path without .bin or .idx.
std::string megatron_prefix(const std::string& path);
bool has_megatron_magic(const MappedFile& index);

// Checks every field of the index and both sizes; throws DataError naming the field. One sequence is one
// document, as in Megatron's own GPT sampling.
std::unique_ptr<TokenFile> open_megatron_file(const std::string& path);

}  // namespace escalier::data
