// "Did you mean": names that users type, mapped to the names that exist. Feeds messages only; nothing is
// accepted under another name.
#pragma once

#include <string>
#include <vector>

#include "config/fields.h"

namespace escalier::config {

// What to say about an unknown key, and the key that the user likely meant ("" if none).
struct Suggestion {
    std::string text;  // "did you mean parallel.tp?"
    std::string key;
};
// path: the unknown key; table: what may be written at its place.
Suggestion suggest(const std::string& path, const FieldTable& table);

// A hint for a value that is none of the choices; "" if there is none.
std::string choice_hint(const std::string& value, const std::vector<std::string>& choices);

// Every foreign or coming name of the tables, for the test that each points at a key that exists.
struct ForeignName {
    const char* foreign;  // lower case, underscores
    const char* ours;     // a path of the spec
    const char* note;     // may be empty
};
const std::vector<ForeignName>& foreign_names();

}  // namespace escalier::config
