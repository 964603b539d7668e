#include "checkpoint/hf_export.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "checkpoint/hf_config.h"
#include "checkpoint/model_tensors.h"
#include "checkpoint/narrow.h"
#include "checkpoint/safetensors.h"
#include "core/error.h"

namespace escalier::checkpoint {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t elements_at_once = 1 << 22;

// Order of the layers' numbers: layers.2 before layers.10.
bool in_natural_order(const std::string& a, const std::string& b) {
    std::size_t i = 0, j = 0;
    const auto digits = [](const std::string& text, std::size_t at) {
        return std::min(text.find_first_not_of("0123456789", at), text.size()) - at;
    };
    while (i < a.size() && j < b.size()) {
        const std::size_t m = digits(a, i), n = digits(b, j);
        if (m > 0 && m != n && n > 0) return m < n;  // names have no leading zeros
        if (a[i] != b[j]) return a[i] < b[j];
        ++i, ++j;
    }
    return a.size() - i < b.size() - j;
}

struct Shard {
    std::string file;
    std::vector<std::string> tensors;
    std::uint64_t bytes = 0;
};

std::uint64_t bytes_of(const TensorInfo& info, const std::string& dtype) {
    std::uint64_t bytes = stored_width(dtype);
    for (const std::int64_t extent : info.shape) bytes *= static_cast<std::uint64_t>(extent);
    return bytes;
}

std::vector<Shard> split(const TensorSource& weights, const std::string& dtype, std::uint64_t most_bytes) {
    std::vector<std::string> names;
    for (const auto& [name, info] : weights.tensors()) names.push_back(name);
    std::sort(names.begin(), names.end(), in_natural_order);
    std::vector<Shard> shards;
    for (const std::string& name : names) {
        const std::uint64_t bytes = bytes_of(weights.tensors().at(name), dtype);
        if (shards.empty() || shards.back().bytes + bytes > most_bytes) shards.emplace_back();
        shards.back().tensors.push_back(name);
        shards.back().bytes += bytes;
    }
    for (std::size_t i = 0; i < shards.size(); ++i) {
        char text[64];
        std::snprintf(text, sizeof text, "model-%05zu-of-%05zu.safetensors", i + 1, shards.size());
        shards[i].file = shards.size() == 1 ? "model.safetensors" : text;
        std::sort(shards[i].tensors.begin(), shards[i].tensors.end());
    }
    return shards;
}

class Exporter {
 public:
    Exporter(const TensorSource& weights, const HfExportOptions& options, std::string folder,
             FileLayer& files)
        : weights_(weights), dtype_(stored_dtype(options.dtype)), folder_(std::move(folder)), files_(files) {}

    void write(const Shard& shard) {
        std::vector<HeaderEntry> entries;
        for (const std::string& name : shard.tensors)
            entries.push_back({name, weights_.tensors().at(name).shape, dtype_});
        const std::unique_ptr<OutputFile> file = files_.create(folder_ + "/" + shard.file);
        const std::string header = file_header(entries, {});
        file->write(header.data(), header.size());
        for (const std::string& name : shard.tensors) write_tensor(name, *file);
        file->sync();
    }

    void write_index(const std::vector<Shard>& shards) {
        nlohmann::ordered_json root;
        std::uint64_t bytes = 0;
        std::map<std::string, std::string> places;
        for (const Shard& shard : shards) {
            bytes += shard.bytes;
            for (const std::string& name : shard.tensors) places[name] = shard.file;
        }
        root["metadata"]["total_size"] = bytes;
        root["weight_map"] = places;
        write_file(files_, folder_ + "/model.safetensors.index.json", root.dump(2) + "\n");
    }

 private:
    void write_tensor(const std::string& name, OutputFile& file) {
        const std::vector<std::int64_t>& shape = weights_.tensors().at(name).shape;
        const bool matrix = shape.size() == 2;
        const std::int64_t columns = matrix ? shape[1] : 1;
        const std::int64_t at_once =
            std::max<std::int64_t>(1, elements_at_once / std::max<std::int64_t>(1, columns));
        for (std::int64_t row = 0; row < shape[0]; row += at_once) {
            const std::int64_t rows = std::min(at_once, shape[0] - row);
            values_.resize(static_cast<std::size_t>(rows * columns));
            bytes_.resize(values_.size() * stored_width(dtype_));
            const model::Box box = matrix ? model::Box{{row, 0}, {rows, columns}} : model::Box{{row}, {rows}};
            weights_.read_box(name, box, false, values_.data());
            const std::size_t beyond = narrow(values_, dtype_, bytes_.data());
            if (beyond < values_.size()) refuse(name, values_[beyond]);
            file.write(bytes_.data(), bytes_.size());
        }
    }

    [[noreturn]] void refuse(const std::string& name, float value) const {
        char text[32];
        std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
        throw DataError(weights_.path() + ": tensor '" + name + "' holds " + text + ", which " + dtype_ +
                        " has no place for. Export with another --dtype.");
    }

    const TensorSource& weights_;
    std::string dtype_;
    std::string folder_;
    FileLayer& files_;
    std::vector<float> values_;
    std::vector<char> bytes_;
};

std::string read_text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file) throw IoError::read(path + ": cannot be read");
    return std::move(text).str();
}

void write_model_files(const TensorSource& weights, const config::ModelConfig& model, std::int64_t seq_len,
                       const std::string& assets_directory, const std::string& folder,
                       const HfExportOptions& options, FileLayer& files, HfExportResult& result) {
    const std::vector<Shard> shards = split(weights, stored_dtype(options.dtype), options.max_shard_bytes);
    Exporter exporter(weights, options, folder, files);
    for (const Shard& shard : shards) {
        exporter.write(shard);
        result.tensors += shard.tensors.size();
        result.bytes += shard.bytes;
    }
    result.files = shards.size();
    if (shards.size() > 1) exporter.write_index(shards);
    std::string imported;
    for (const std::string& name : hf_asset_names()) {
        const std::string path = assets_directory + "/" + name;
        if (assets_directory.empty() || !fs::is_regular_file(path)) continue;
        if (name == hf_config_name) {
            imported = read_text(path);
            continue;
        }
        write_file(files, folder + "/" + name, read_text(path));
        result.assets.push_back(name);
    }
    const std::string dtype = options.dtype == "fp32"   ? "float32"
                              : options.dtype == "bf16" ? "bfloat16"
                                                        : "float16";
    write_file(files, folder + "/" + hf_config_name, hf_config_text(model, dtype, seq_len, imported));
}

}  // namespace

const std::vector<std::string>& hf_asset_names() {
    static const std::vector<std::string> names = {hf_config_name,
                                                   "tokenizer.json",
                                                   "tokenizer.model",
                                                   "vocab.json",
                                                   "merges.txt",
                                                   "tokenizer_config.json",
                                                   "special_tokens_map.json",
                                                   "added_tokens.json",
                                                   "generation_config.json",
                                                   "chat_template.jinja"};
    return names;
}

HfExportResult export_hf(const TensorSource& weights, const config::ModelConfig& model, std::int64_t seq_len,
                         const std::string& assets_directory, const std::string& directory,
                         const HfExportOptions& options, FileLayer& files) {
    check_is_model(weights, model);
    fs::path absolute = fs::weakly_canonical(fs::absolute(directory));
    if (!absolute.has_filename()) absolute = absolute.parent_path();  // a slash at the end
    const std::string target = absolute.string();
    std::error_code error;
    if (fs::exists(target) && !(fs::is_directory(target) && fs::is_empty(target, error)))
        throw ConfigError(directory +
                          " is there and not empty; an export makes a folder of its own. Give a new name.");
    const fs::path parent = fs::path(target).has_parent_path() ? fs::path(target).parent_path() : ".";
    fs::create_directories(parent, error);  // make_directory() tells what is wrong
    const std::string folder = target + ".tmp-" + std::to_string(::getpid());
    files.make_directory(folder);
    HfExportResult result;
    try {
        write_model_files(weights, model, seq_len, assets_directory, folder, options, files, result);
        files.sync_directory(folder);
        files.rename(folder, target);
        files.sync_directory(parent.string());
    } catch (const Error&) {
        try {
            if (fs::exists(folder)) remove_tree(files, folder);
        } catch (const IoError&) {
            // The first failure is the one to tell.
        }
        throw;
    }
    return result;
}

}  // namespace escalier::checkpoint
