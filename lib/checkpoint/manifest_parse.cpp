#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "checkpoint/manifest.h"
#include "checkpoint/manifest_fields.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/strict_json.h"
#include "core/error.h"
#include "core/text.h"

namespace escalier::checkpoint {

namespace {

using nlohmann::json;

struct Fault {
    std::string text;
};

std::string shown(const json& value) {
    return shortened(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

// An object of the manifest whose keys are all known.
class Fields {
 public:
    Fields(const json& value, std::string where, const std::set<std::string>& known)
        : value_(value), where_(std::move(where)) {
        if (!value.is_object()) throw Fault{where_ + " is " + shown(value) + ", not an object"};
        for (const auto& [key, unused] : value.items())
            if (!known.contains(key)) throw Fault{where_ + " has the unknown key '" + shortened(key) + "'"};
    }

    const json& at(const char* key) const {
        const auto found = value_.find(key);
        if (found == value_.end()) throw Fault{where_ + " lacks '" + key + "'"};
        return *found;
    }
    std::int64_t count(const char* key, std::int64_t least, std::int64_t most = INT64_MAX) const {
        return number(at(key), name(key), least, most);
    }
    std::string string(const char* key) const {
        if (!at(key).is_string()) throw Fault{name(key) + " is " + shown(at(key)) + ", not a text"};
        return at(key).get<std::string>();
    }
    std::string digits(const char* key, std::size_t length) const {
        const std::string text = string(key);
        if (text.size() != length || text.find_first_not_of("0123456789abcdef") != std::string::npos)
            throw Fault{name(key) + " is '" + shortened(text) + "', not " + std::to_string(length) +
                        " hexadecimal digits"};
        return text;
    }
    const json& array(const char* key) const {
        if (!at(key).is_array()) throw Fault{name(key) + " is " + shown(at(key)) + ", not a list"};
        return at(key);
    }
    bool has(const char* key) const { return value_.contains(key); }
    std::string name(const char* key) const { return where_ + "." + key; }

    static std::int64_t number(const json& value, const std::string& name, std::int64_t least,
                               std::int64_t most = INT64_MAX) {
        const bool fits =
            value.is_number_unsigned() ? value.get<std::uint64_t>() <= INT64_MAX : value.is_number_integer();
        if (!fits || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
            throw Fault{name + " is " + shown(value) + ", not a whole number" +
                        (least == INT64_MIN ? "" : " from " + std::to_string(least)) +
                        (most == INT64_MAX ? "" : " to " + std::to_string(most))};
        return value.get<std::int64_t>();
    }

 private:
    const json& value_;
    std::string where_;
};

std::vector<double> window(const Fields& fields, const char* key) {
    std::vector<double> out;
    for (const json& value : fields.array(key)) {
        if (!value.is_number()) throw Fault{fields.name(key) + " holds " + shown(value) + ", not a number"};
        out.push_back(value.get<double>());
    }
    return out;
}

RunState parse_run(const Fields& fields) {
    RunState run;
    run.step = fields.count("step", 0, 99'999'999);
    run.updates = fields.count("updates", 0, run.step);
    run.consumed_samples = fields.count("consumed_samples", 0);
    run.consumed_tokens = fields.count("consumed_tokens", 0);
    run.seed = fields.count("seed", INT64_MIN);
    run.dataset_fingerprint = fields.string("dataset_fingerprint");
    if (!run.dataset_fingerprint.empty()) run.dataset_fingerprint = fields.digits("dataset_fingerprint", 16);
    run.tool_version = fields.string("tool_version");
    const Fields grid(fields.at("grid"), "grid", {"tp", "pp", "dp"});
    run.tp = static_cast<int>(grid.count("tp", 1, INT32_MAX));
    run.pp = static_cast<int>(grid.count("pp", 1, INT32_MAX));
    run.dp = static_cast<int>(grid.count("dp", 1, INT32_MAX));
    run.schedule = fields.string("schedule");
    run.optimizer = fields.string("optimizer");
    if (run.optimizer != "adamw" && run.optimizer != "sgd" && run.optimizer != "none")
        throw Fault{"optimizer is '" + shortened(run.optimizer) + "'; known: adamw, sgd, none"};
    run.loss_window = window(fields, "loss_window");
    run.norm_window = window(fields, "norm_window");
    run.skipped = fields.count("skipped", 0, run.step);
    return run;
}

// A plain name, in the folder of what came with an imported model too.
bool file_of_checkpoint(const std::string& name) {
    const std::string assets = std::string(assets_name) + "/";
    return plain_file_name(name.starts_with(assets) ? name.substr(assets.size()) : name);
}

std::vector<ManifestFile> parse_files(const Fields& fields, std::map<std::string, std::size_t>& index) {
    std::vector<ManifestFile> files;
    for (const json& value : fields.array("files")) {
        const Fields entry(value, "files[" + std::to_string(files.size()) + "]",
                           {"name", "bytes", "xxh3_128"});
        ManifestFile file;
        file.name = entry.string("name");
        if (!file_of_checkpoint(file.name))
            throw Fault{entry.name("name") + " is '" + shortened(file.name) + "', not a plain file name"};
        file.bytes = static_cast<std::uint64_t>(entry.count("bytes", 0));
        file.xxh3_128 = entry.digits("xxh3_128", 32);
        if (!index.emplace(file.name, files.size()).second)
            throw Fault{"files names '" + file.name + "' twice"};
        files.push_back(file);
    }
    return files;
}

// One or two extents (at least 1) or offsets (at least 0).
std::vector<std::int64_t> parse_axes(const Fields& fields, const char* key, std::int64_t least) {
    std::vector<std::int64_t> out;
    std::int64_t bytes = sizeof(float);
    for (const json& value : fields.array(key)) {
        out.push_back(Fields::number(value, fields.name(key), least));
        if (least > 0 && __builtin_mul_overflow(bytes, out.back(), &bytes))
            throw Fault{fields.name(key) + " is " + shown(fields.at(key)) + ", more than 2^63 bytes"};
    }
    if (out.size() != 1 && out.size() != 2)
        throw Fault{fields.name(key) + " is " + shown(fields.at(key)) + ", not one or two numbers"};
    return out;
}

ManifestPiece parse_piece(const json& value, const std::string& where, const std::vector<std::int64_t>& shape,
                          const std::map<std::string, std::size_t>& files) {
    const Fields fields(value, where, {"file", "key", "offset", "shape"});
    ManifestPiece piece;
    const auto file = files.find(fields.string("file"));
    if (file == files.end())
        throw Fault{fields.name("file") + " is '" + shortened(fields.string("file")) +
                    "', which files lacks"};
    piece.file = file->second;
    piece.key = fields.string("key");
    const std::vector<std::int64_t> offset = parse_axes(fields, "offset", 0);
    const std::vector<std::int64_t> extent = parse_axes(fields, "shape", 1);
    if (offset.size() != shape.size() || extent.size() != shape.size())
        throw Fault{where + " has another number of axes than its tensor"};
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
        if (extent[axis] > shape[axis] || offset[axis] > shape[axis] - extent[axis])
            throw Fault{where + " lies outside its tensor"};
    piece.block = shape.size() == 1 ? Block{0, offset[0], 1, extent[0]}
                                    : Block{offset[0], offset[1], extent[0], extent[1]};
    return piece;
}

ManifestTensor parse_tensor(const json& value, const std::string& where,
                            const std::map<std::string, std::size_t>& files) {
    const Fields fields(value, where, {"shape", "weight", "exp_avg", "exp_avg_sq"});
    ManifestTensor tensor;
    tensor.shape = parse_axes(fields, "shape", 1);
    for (const StateKind kind : all_state_kinds) {
        const char* key = state_kind_name(kind);
        if (kind != StateKind::weight && !fields.has(key)) continue;
        std::vector<ManifestPiece>& pieces = tensor.pieces[static_cast<std::size_t>(kind)];
        for (const json& piece : fields.array(key))
            pieces.push_back(parse_piece(piece, fields.name(key) + "[" + std::to_string(pieces.size()) + "]",
                                         tensor.shape, files));
    }
    return tensor;
}

Manifest parse(const std::string& text) {
    json root;
    try {
        root = parse_strict_json(text);
    } catch (const JsonFault& fault) {
        throw Fault{std::string("it ") + fault.what()};
    }
    if (!root.is_object() || !root.contains("format") || root["format"] != manifest_format)
        throw Fault{std::string("its format is not '") + manifest_format + "'"};
    if (!root.contains("version") || root["version"] != manifest_version)
        throw Fault{"its version is " + (root.contains("version") ? shown(root["version"]) : "not given") +
                    "; this program reads version " + std::to_string(manifest_version)};
    const Fields fields(root, "manifest",
                        {"format", "version", manifest_hash_key, "step", "updates", "consumed_samples",
                         "consumed_tokens", "seed", "dataset_fingerprint", "tool_version", "grid", "schedule",
                         "optimizer", "loss_window", "norm_window", "skipped", "files", "tensors"});
    // One that was written before manifests had a hash lacks it.
    if (fields.has(manifest_hash_key) && fields.digits(manifest_hash_key, 32) != manifest_hash(root))
        throw Fault{"its content has the hash " + manifest_hash(root) + ", but " + manifest_hash_key +
                    " in it is " + fields.string(manifest_hash_key) +
                    ": something in it was changed after it was written"};
    Manifest manifest;
    manifest.run = parse_run(fields);
    std::map<std::string, std::size_t> files;
    manifest.files = parse_files(fields, files);
    const json& tensors = fields.at("tensors");
    if (!tensors.is_object()) throw Fault{"tensors is " + shown(tensors) + ", not an object"};
    for (const auto& [name, value] : tensors.items())
        manifest.tensors.emplace(name, parse_tensor(value, "tensor '" + shortened(name) + "'", files));
    const std::string fault = coverage_fault(manifest);
    if (!fault.empty()) throw Fault{fault};
    return manifest;
}

}  // namespace

bool plain_file_name(const std::string& name) {
    constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return !name.empty() && name.size() <= 200 && name[0] != '.' &&
           name.find_first_not_of(allowed) == std::string::npos;
}

Manifest parse_manifest(const std::string& text, const std::string& path) {
    try {
        return parse(text);
    } catch (const Fault& fault) {
        throw DataError(path + ": " + fault.text + ". The checkpoint is damaged: use another one.");
    }
}

}  // namespace escalier::checkpoint
