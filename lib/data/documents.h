// The documents of a text or JSONL file, one after another, without holding the file in memory.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/mapped_file.h"

namespace escalier::data {

enum class DocumentKind {
    jsonl,        // one object a line, its text under a key
    whole_file,   // one document per file
    blank_lines,  // documents separated by one or more blank lines; each keeps its last line end
};

// jsonl for .jsonl, .ndjson and .json, whole_file for everything else.
DocumentKind document_kind(const std::string& path);

// Calls `body` for each document that is not empty, in order. A view into the file for plain text; valid
// during the call. Throws DataError naming file and line for a line that is not an object with one string
// under `key`.
void for_each_document(const MappedFile& file, DocumentKind kind, const std::string& key,
                       const std::function<void(std::string_view)>& body);

}  // namespace escalier::data
