// Text and JSONL files to one Megatron .bin/.idx pair.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/token_file.h"
#include "data/tokenizer.h"

namespace escalier::data {

struct PackOptions {
    bool append_eod = true;          // the tokenizer's end-of-document id after every document
    bool split_blank_lines = false;  // plain text: documents separated by blank lines, else one per file
    std::string key = "text";        // JSONL: the key of the text
    std::int64_t max_sequence = INT32_MAX;  // see MegatronWriter
    // Text is tokenized in pieces of about this many bytes, so that memory and time stay bounded.
    std::size_t piece_bytes = std::size_t{1} << 20;
};

struct PackResult {
    std::int64_t documents = 0;
    std::int64_t tokens = 0;
    std::int64_t text_bytes = 0;  // of the documents' text
    TokenType type = TokenType::u16;
};

// Packs the files in the order given, holding neither a file nor its tokens in memory. Empty documents are
// left out. Throws IoError, DataError (a line that is not JSONL, NUL bytes, no document at all) or
// ConfigError (input that is compressed or of another known kind, a tokenizer without an end-of-document id,
// an output that is an input). An existing pair is replaced when the new one is whole.
PackResult pack(const std::vector<std::string>& inputs, const std::string& prefix, const Tokenizer& tokenizer,
                const PackOptions& options);

}  // namespace escalier::data
