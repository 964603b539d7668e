#include "data/documents.h"

#include <cctype>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace escalier::data {
namespace {

std::string_view text_of(const MappedFile& file) {
    return {reinterpret_cast<const char*>(file.data()), static_cast<std::size_t>(file.size())};
}

// Lines without their '\n' and '\r'; body(line, begin, end) with [begin, end) the bytes including the line
// end.
template <class Body>
void for_each_line(std::string_view text, Body&& body) {
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t newline = text.find('\n', begin);
        const std::size_t end = newline == std::string_view::npos ? text.size() : newline + 1;
        std::string_view line = text.substr(begin, end - begin);
        while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
        body(line, begin, end);
        begin = end;
    }
}

bool is_blank(std::string_view line) {
    return line.find_first_not_of(" \t\v\f") == std::string_view::npos;
}

void jsonl_documents(const MappedFile& file, const std::string& key,
                     const std::function<void(std::string_view)>& body) {
    std::int64_t number = 0;
    for_each_line(text_of(file), [&](std::string_view line, std::size_t, std::size_t) {
        ++number;
        if (is_blank(line)) return;
        const auto where = [&] { return file.path() + ":" + std::to_string(number) + ": "; };
        // The parser keeps the last of several values under one key without a word.
        int values = 0;
        const auto count = [&](int depth, nlohmann::json::parse_event_t event, const nlohmann::json& name) {
            using Event = nlohmann::json::parse_event_t;
            if (event == Event::key && depth == 1 && name.get_ref<const std::string&>() == key) ++values;
            return true;
        };
        nlohmann::json object;
        try {
            object = nlohmann::json::parse(line, count);
        } catch (const nlohmann::json::exception& error) {
            throw DataError(where() + "is not JSON (" + error.what() + "); JSONL has one object a line");
        }
        if (!object.is_object()) throw DataError(where() + "is not a JSON object");
        if (values > 1)
            throw DataError(where() + "has the key \"" + key + "\" " + std::to_string(values) +
                            " times; a line holds one text under it: keep one");
        const auto found = object.find(key);
        if (found == object.end() || !found->is_string())
            throw DataError(where() +
                            (found == object.end() ? "has no key \"" : "has no string under the key \"") +
                            key + "\"; another key is given by escalier data pack --key NAME");
        const auto& text = found->get_ref<const std::string&>();
        if (!text.empty()) body(text);
    });
}

void blank_line_documents(std::string_view text, const std::function<void(std::string_view)>& body) {
    std::size_t document_begin = 0, document_end = 0;  // equal: no line yet
    for_each_line(text, [&](std::string_view line, std::size_t begin, std::size_t end) {
        if (!is_blank(line)) {
            if (document_begin == document_end) document_begin = begin;
            document_end = end;
            return;
        }
        if (document_begin != document_end) body(text.substr(document_begin, document_end - document_begin));
        document_begin = document_end = end;
    });
    if (document_begin != document_end) body(text.substr(document_begin, document_end - document_begin));
}

}  // namespace

DocumentKind document_kind(const std::string& path) {
    std::string ending = std::filesystem::path(path).extension().string();
    for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return ending == ".jsonl" || ending == ".ndjson" || ending == ".json" ? DocumentKind::jsonl
                                                                          : DocumentKind::whole_file;
}

void for_each_document(const MappedFile& file, DocumentKind kind, const std::string& key,
                       const std::function<void(std::string_view)>& body) {
    switch (kind) {
        case DocumentKind::jsonl:
            jsonl_documents(file, key, body);
            break;
        case DocumentKind::whole_file:
            if (file.size() > 0) body(text_of(file));
            break;
        case DocumentKind::blank_lines:
            blank_line_documents(text_of(file), body);
            break;
    }
}

}  // namespace escalier::data
