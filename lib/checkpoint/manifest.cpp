#include "checkpoint/manifest.h"

#include <nlohmann/json.hpp>

#include "checkpoint/file_hash.h"
#include "checkpoint/manifest_fields.h"

namespace escalier::checkpoint {

namespace {

using nlohmann::json;

// Extents or offsets of as many axes as the tensor has.
json axes(const std::vector<std::int64_t>& shape, std::int64_t first, std::int64_t second) {
    return shape.size() == 1 ? json{second} : json{first, second};
}

}  // namespace

std::string Manifest::text() const {
    json root = {{"format", manifest_format},
                 {"version", manifest_version},
                 {"step", run.step},
                 {"updates", run.updates},
                 {"consumed_samples", run.consumed_samples},
                 {"consumed_tokens", run.consumed_tokens},
                 {"seed", run.seed},
                 {"dataset_fingerprint", run.dataset_fingerprint},
                 {"tool_version", run.tool_version},
                 {"grid", {{"tp", run.tp}, {"pp", run.pp}, {"dp", run.dp}}},
                 {"schedule", run.schedule},
                 {"optimizer", run.optimizer},
                 {"loss_window", run.loss_window},
                 {"norm_window", run.norm_window},
                 {"skipped", run.skipped}};
    json& listed = root["files"] = json::array();
    for (const ManifestFile& file : files)
        listed.push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3_128", file.xxh3_128}});
    json& described = root["tensors"] = json::object();
    for (const auto& [name, tensor] : tensors) {
        json& entry = described[name] = {{"shape", tensor.shape}};
        for (const StateKind kind : all_state_kinds) {
            if (tensor.of(kind).empty()) continue;
            json& pieces = entry[state_kind_name(kind)] = json::array();
            for (const ManifestPiece& piece : tensor.of(kind))
                pieces.push_back({{"file", files.at(piece.file).name},
                                  {"key", piece.key},
                                  {"offset", axes(tensor.shape, piece.block.row, piece.block.column)},
                                  {"shape", axes(tensor.shape, piece.block.rows, piece.block.columns)}});
        }
    }
    root[manifest_hash_key] = manifest_hash(root);
    return root.dump(1) + "\n";
}

std::string manifest_hash(const json& root) {
    FileHash hash;
    const auto add = [&](const std::string& text) { hash.add(text.data(), text.size()); };
    for (const auto& [key, value] : root.items())
        if (key != manifest_hash_key) add(json(key).dump() + ":" + value.dump() + "\n");
    return hash.hex();
}

std::string piece_key(const std::string& name, StateKind kind, const std::vector<std::int64_t>& shape,
                      const Block& block) {
    const auto range = [](std::int64_t begin, std::int64_t extent) {
        return std::to_string(begin) + ":" + std::to_string(begin + extent);
    };
    std::string key = name;
    if (kind != StateKind::weight) key += std::string(".") + state_kind_name(kind);
    if (block == whole_block(shape)) return key;
    key += "[";
    if (shape.size() == 2) key += range(block.row, block.rows) + ",";
    return key + range(block.column, block.columns) + "]";
}

}  // namespace escalier::checkpoint
