// Plain text and JSONL read as they are, with the byte tokenizer: each document's bytes, then the
// end-of-document id. The stream equals what `escalier data pack` writes for the same file.
#pragma once

#include <memory>
#include <string>

#include "data/token_file.h"

namespace escalier::data {

// text: one document, straight from the mapped file, any size. jsonl: parsed into memory, refused above 256
// MiB with the advice to pack. Any tokenizer but byte is refused with the same advice (ConfigError).
std::unique_ptr<TokenFile> open_text_file(const std::string& path, FileFormat format,
                                          const std::string& tokenizer);

}  // namespace escalier::data
