#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "checkpoint/safetensors.h"
#include "checkpoint/strict_json.h"
#include "core/text.h"

namespace escalier::checkpoint {

namespace {

using nlohmann::json;

constexpr std::uint64_t max_header_bytes = 100'000'000;

[[noreturn]] void damaged(const std::string& path, const std::string& fault) {
    throw DataError(path + ": " + fault +
                    ". The file is damaged or no safetensors file: fetch or write it anew.");
}

std::optional<std::uint64_t> bytes_of(const std::string& dtype) {
    static constexpr std::pair<const char*, std::uint64_t> widths[] = {
        {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1},
        {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},     {"U32", 4},
        {"F32", 4},  {"I64", 8}, {"U64", 8}, {"F64", 8},     {"C64", 8}};
    for (const auto& [name, width] : widths)
        if (dtype == name) return width;
    return std::nullopt;
}

json parse_text(std::string_view text, const std::string& path) {
    try {
        return parse_strict_json(text);
    } catch (const JsonFault& fault) {
        damaged(path, std::string("the header ") + fault.what());
    }
}

std::uint64_t unsigned_number(const json& value, const std::string& path, const std::string& what) {
    if (!value.is_number_unsigned()) damaged(path, what + " is " + shortened(value.dump()) + ", not a count");
    return value.get<std::uint64_t>();
}

StoredTensor parse_tensor(const std::string& name, const json& entry, const std::string& path) {
    const std::string where = "tensor '" + name_text(name) + "'";
    if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() ||
        !entry.contains("shape") || !entry["shape"].is_array() || !entry.contains("data_offsets") ||
        !entry["data_offsets"].is_array() || entry["data_offsets"].size() != 2)
        damaged(path, where + " lacks dtype, shape or data_offsets");
    StoredTensor tensor;
    tensor.info.dtype = entry["dtype"].get<std::string>();
    const std::optional<std::uint64_t> width = bytes_of(tensor.info.dtype);
    if (!width) damaged(path, where + " has the unknown dtype '" + shortened(tensor.info.dtype) + "'");
    std::uint64_t bytes = *width;
    for (const json& extent : entry["shape"]) {
        const std::uint64_t value = unsigned_number(extent, path, "an extent of " + where);
        if (value > INT64_MAX || __builtin_mul_overflow(bytes, value, &bytes))
            damaged(path,
                    where + " has the shape " + shortened(entry["shape"].dump()) + ", more than 2^64 bytes");
        tensor.info.shape.push_back(static_cast<std::int64_t>(value));
    }
    tensor.begin = unsigned_number(entry["data_offsets"][0], path, "an offset of " + where);
    tensor.end = unsigned_number(entry["data_offsets"][1], path, "an offset of " + where);
    if (tensor.end < tensor.begin || tensor.end - tensor.begin != bytes)
        damaged(path, where + " (" + tensor.info.text() + ") takes " + std::to_string(bytes) +
                          " bytes, but its data_offsets are " + shortened(entry["data_offsets"].dump()));
    return tensor;
}

Metadata parse_metadata(const json& entry, const std::string& path) {
    Metadata metadata;
    if (!entry.is_object()) damaged(path, "__metadata__ is not an object");
    for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) damaged(path, "__metadata__ entry '" + shortened(key) + "' is not a string");
        metadata[key] = value.get<std::string>();
    }
    return metadata;
}

void check_coverage(const SafetensorsHeader& header, std::uint64_t file_bytes, const std::string& path) {
    struct Piece {
        std::uint64_t begin, end;
        const std::string* name;
    };
    std::vector<Piece> pieces;
    for (const auto& [name, tensor] : header.tensors) pieces.push_back({tensor.begin, tensor.end, &name});
    std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
        return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    const std::uint64_t data_bytes = file_bytes - header.data_begin;
    std::uint64_t end = 0;
    for (const Piece& piece : pieces) {
        if (piece.end > data_bytes)
            damaged(path, "tensor '" + name_text(*piece.name) + "' ends at byte " +
                              std::to_string(piece.end) + " of the data, but the file (" +
                              std::to_string(file_bytes) + " bytes) has only " + std::to_string(data_bytes) +
                              " bytes of data");
        if (piece.begin != end)
            damaged(path, "tensor '" + name_text(*piece.name) + "' begins at byte " +
                              std::to_string(piece.begin) +
                              " of the data, but the tensor before it ends at byte " + std::to_string(end) +
                              (piece.begin < end ? " (overlap)" : " (hole)"));
        end = piece.end;
    }
    if (end != data_bytes)
        damaged(path, "the header describes " + std::to_string(header.data_begin + end) +
                          " bytes, but the file has " + std::to_string(file_bytes));
}

}  // namespace

SafetensorsHeader parse_header(std::span<const char> bytes, const std::string& path) {
    const std::string_view text(bytes.data(), bytes.size());
    if (text.starts_with("version https://git-lfs"))
        throw DataError(path + ": this is a Git LFS pointer (" + std::to_string(bytes.size()) +
                        " bytes of text), not the weights: fetch them with `git lfs pull`.");
    if (bytes.size() < 8)
        damaged(path, "the file has " + std::to_string(bytes.size()) +
                          " bytes, fewer than the 8 of the header's length");
    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, bytes.data(), 8);
    if (header_bytes > max_header_bytes)
        damaged(path, "the header's length is given as " + std::to_string(header_bytes) +
                          " bytes, more than the " + std::to_string(max_header_bytes) + " that are allowed");
    if (8 + header_bytes > bytes.size())
        damaged(path, "the header ends at byte " + std::to_string(8 + header_bytes) + ", but the file has " +
                          std::to_string(bytes.size()) + " bytes");
    const std::string_view header_text = text.substr(8, header_bytes);
    if (!header_text.starts_with('{')) damaged(path, "the header is not a JSON object");

    SafetensorsHeader header;
    header.data_begin = 8 + header_bytes;
    const json root = parse_text(header_text, path);
    for (const auto& [name, entry] : root.items()) {
        if (name == "__metadata__")
            header.metadata = parse_metadata(entry, path);
        else
            header.tensors[name] = parse_tensor(name, entry, path);
    }
    check_coverage(header, bytes.size(), path);
    return header;
}

}  // namespace escalier::checkpoint
