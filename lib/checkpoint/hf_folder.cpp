#include "checkpoint/hf_folder.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "checkpoint/hf_index.h"
#include "checkpoint/model_tensors.h"
#include "core/text.h"

namespace escalier::checkpoint {

namespace {

namespace fs = std::filesystem;

constexpr const char* single_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";

bool is_file(const std::string& path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored);
}

// Why there is nothing to read, from what is there instead.
[[noreturn]] void refuse_without_weights(const std::string& directory) {
    std::error_code error;
    std::string pickles, others;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
        const std::string name = entry.path().filename().string();
        const bool pickle = name.starts_with("pytorch_model");
        if (!pickle && !name.ends_with(".safetensors")) continue;
        std::string& list = pickle ? pickles : others;
        list += (list.empty() ? "" : ", ") + shortened(name);
    }
    const std::string wanted = std::string(" has neither ") + index_name + " nor " + single_name;
    if (!pickles.empty() && others.empty())
        throw DataError(directory + wanted + ", but " + pickles +
                        ". Pickled weights can run code and are not read: load the model with transformers "
                        "and save it with save_pretrained().");
    throw IoError::read(directory + wanted +
                        (others.empty() ? "" : " (there is " + others + ", of another name)") +
                        ". Give the folder of a whole model.");
}

// What transformers makes from the config and older versions stored.
bool is_derived(config::Arch arch, const std::string& name) {
    if (arch == config::Arch::llama) return name.ends_with(".rotary_emb.inv_freq");
    return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

std::string whole_model_name(config::Arch arch, const std::string& name) {
    const std::string prefix = arch == config::Arch::gpt2 ? "transformer." : "model.";
    return name == head_name || name.starts_with(prefix) ? name : prefix + name;
}

}  // namespace

HfFolder::HfFolder(const std::string& directory, const config::ModelConfig& model)
    : directory_(directory), model_(model) {
    const std::string base = directory + "/";
    if (is_file(base + index_name))
        open_index(base + index_name);
    else if (is_file(base + single_name))
        open(single_name);
    else
        refuse_without_weights(directory);
    for (const auto& file : files_)
        for (const auto& [name, info] : file->tensors()) add(*file, name);
    resolve_tied_head();
    check_is_model(*this, model_);
}

void HfFolder::open_index(const std::string& index) {
    const MappedFile text(index);
    const std::map<std::string, std::string> files =
        parse_hf_index({text.bytes().data(), text.bytes().size()}, index);
    std::map<std::string, const SafetensorsReader*> opened;
    for (const auto& [name, file] : files) {
        if (!opened.contains(file)) {
            if (!is_file(directory_ + "/" + file))
                throw IoError::read(directory_ + "/" + name_text(file) + ", which " + index_name +
                                    " names for tensor '" + name_text(name) +
                                    "', is missing. Fetch the whole folder.");
            opened[file] = &open(file);
        }
        if (!opened[file]->tensors().contains(name))
            throw DataError(opened[file]->path() + ": tensor '" + name_text(name) + "', which " + index_name +
                            " says is here, is missing. Index and shards are of different versions.");
    }
    for (const auto& [file, reader] : opened)
        for (const auto& [name, info] : reader->tensors()) {
            const auto found = files.find(name);
            if (found == files.end() || found->second != file)
                throw DataError(reader->path() + ": tensor '" + name_text(name) + "' " + info.text() +
                                " is not named by " + index_name +
                                " for this file. Index and shards are of different versions.");
        }
}

const SafetensorsReader& HfFolder::open(const std::string& file) {
    return *files_.emplace_back(std::make_unique<SafetensorsReader>(directory_ + "/" + file));
}

void HfFolder::add(const SafetensorsReader& file, const std::string& stored_name) {
    if (is_derived(model_.arch, stored_name)) return;
    const std::string name = whole_model_name(model_.arch, stored_name);
    const auto [place, is_new] = places_.emplace(name, Place{&file, stored_name});
    if (!is_new)
        throw DataError(file.path() + ": tensor '" + name_text(stored_name) + "' is there twice, as '" +
                        name_text(place->second.name) + "' in " + place->second.file->path() +
                        " too. Keep one of them.");
    tensors_[name] = file.tensors().at(stored_name);
}

void HfFolder::resolve_tied_head() {
    const std::string table = embedding_table_name(model_.arch);
    const bool has_table = places_.contains(table), has_head = places_.contains(head_name);
    if (!model_.tie_embeddings) {
        if (has_table == has_head) return;  // both, or check_is_model() names the missing one
        const std::string missing = has_table ? head_name : table;
        throw DataError(
            directory_ + ": tensor '" + missing + "' is missing, and by config.json (" +
            "tie_word_embeddings false) the head is not the embedding. Set tie_word_embeddings to "
            "true if it is.");
    }
    if (!has_head) return;
    if (has_table)
        check_equal(table, head_name);
    else {
        places_.emplace(table, places_.at(head_name));
        tensors_[table] = tensors_.at(head_name);
    }
    places_.erase(head_name);
    tensors_.erase(head_name);
}

void HfFolder::check_equal(const std::string& table, const std::string& head) const {
    const TensorInfo &a = tensors_.at(table), &b = tensors_.at(head);
    const auto conflict = [&](const std::string& how) {
        throw DataError(
            directory_ + ": tensors '" + table + "' and '" + head + "' " + how +
            ", but by config.json (tie_word_embeddings true) they are one. Set it to false to keep "
            "both, or remove the wrong one.");
    };
    if (a.shape != b.shape) conflict("are " + a.text() + " and " + b.text());
    const std::vector<std::int64_t> of_model = {model_.vocab_size, model_.hidden_size};
    if (a.shape != of_model) return;  // check_is_model() refuses it
    std::vector<float> row_a(static_cast<std::size_t>(a.shape[1])), row_b(row_a.size());
    for (std::int64_t row = 0; row < a.shape[0]; ++row) {
        const model::Box box{{row, 0}, {1, a.shape[1]}};
        read_box(table, box, false, row_a.data());
        read_box(head, box, false, row_b.data());
        if (std::memcmp(row_a.data(), row_b.data(), row_a.size() * sizeof(float)) != 0)
            conflict("differ in row " + std::to_string(row));
    }
}

void HfFolder::read_box(const std::string& name, const model::Box& box, bool transposed, float* out) const {
    const Place& place = places_.at(name);
    place.file->read_box(place.name, box, transposed, out);
}

}  // namespace escalier::checkpoint
