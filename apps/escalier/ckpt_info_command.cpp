#include "ckpt_info_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/run_folder.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/weights.h"
#include "ckpt_open.h"
#include "config/model_facts.h"
#include "core/text.h"
#include "train/model_source.h"

namespace escalier::apps {

namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

struct InfoArguments {
    std::string path;
    std::vector<std::string> ignored_keys;
    bool tensors = false;
    bool as_json = false;
};

std::int64_t elements(const std::vector<std::int64_t>& shape) {
    std::int64_t product = 1;
    for (const std::int64_t extent : shape) product *= extent;
    return product;
}

// Names of the files of an import that are carried along.
std::vector<std::string> assets_of(const checkpoint::CheckpointReader& reader) {
    std::vector<std::string> names;
    const std::string folder = reader.assets_directory();
    if (folder.empty()) return names;
    for (const auto& entry : fs::directory_iterator(folder))
        names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

json manifest_facts(const checkpoint::CheckpointReader& reader) {
    const checkpoint::RunState& run = reader.manifest().run;
    json facts = {{"step", run.step},
                  {"updates", run.updates},
                  {"consumed_samples", run.consumed_samples},
                  {"consumed_tokens", run.consumed_tokens},
                  {"grid", {{"tp", run.tp}, {"pp", run.pp}, {"dp", run.dp}}},
                  {"schedule", run.schedule},
                  {"optimizer", run.optimizer},
                  {"seed", run.seed},
                  {"dataset_fingerprint", run.dataset_fingerprint},
                  {"tool_version", run.tool_version},
                  {"saved", change_time(reader.directory() + "/" + checkpoint::manifest_name)}};
    facts["files"] = json::array();
    for (const checkpoint::ManifestFile& file : reader.manifest().files)
        facts["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3_128", file.xxh3_128}});
    facts["assets"] = assets_of(reader);
    return facts;
}

json pieces_of(const checkpoint::CheckpointReader& reader, const std::string& name) {
    const checkpoint::Manifest& manifest = reader.manifest();
    json out = json::object();
    for (const checkpoint::StateKind kind : checkpoint::all_state_kinds) {
        json pieces = json::array();
        for (const checkpoint::ManifestPiece& piece : manifest.tensors.at(name).of(kind))
            pieces.push_back({{"file", manifest.files[piece.file].name},
                              {"key", piece.key},
                              {"rows", {piece.block.row, piece.block.row + piece.block.rows}},
                              {"columns", {piece.block.column, piece.block.column + piece.block.columns}}});
        if (!pieces.empty()) out[checkpoint::state_kind_name(kind)] = pieces;
    }
    return out;
}

json tensor_facts(const OpenedTensors& opened) {
    json list = json::array();
    for (const auto& [name, info] : opened.weights().tensors()) {
        json entry = {{"name", name}, {"dtype", info.dtype}, {"shape", info.shape}};
        if (opened.reader) entry["pieces"] = pieces_of(*opened.reader, name);
        list.push_back(entry);
    }
    return list;
}

void add_model(json& facts, const train::WeightDescription& about) {
    facts["model"] = config::model_text(about.model);
    facts["seq_len"] = about.seq_len;
    facts["tokenizer"] = about.tokenizer;
}

json facts_of(const OpenedTensors& opened, const InfoArguments& arguments) {
    json facts = {{"path", opened.path}};
    if (!opened.note.empty()) facts["found"] = opened.note;
    if (opened.reader) {
        facts.update(manifest_facts(*opened.reader));
        add_model(facts, train::open_checkpoint(opened.path).about);
    }
    if (const auto* file = dynamic_cast<const checkpoint::SafetensorsReader*>(opened.other.get())) {
        if (file->metadata().contains(checkpoint::model_metadata_key))
            add_model(facts, train::read_weight_description(opened.path));
        facts["metadata"] = file->metadata();
    }
    std::int64_t parameters = 0;
    std::set<std::string> dtypes;
    for (const auto& [name, info] : opened.weights().tensors()) {
        parameters += elements(info.shape);
        dtypes.insert(info.dtype);
    }
    facts["weights"] = {
        {"tensors", opened.weights().tensors().size()}, {"elements", parameters}, {"dtypes", dtypes}};
    if (arguments.tensors) facts["tensors"] = tensor_facts(opened);
    return facts;
}

void print_line(const std::string& label, const std::string& text) {
    std::cout << label << std::string(12 - std::min<std::size_t>(11, label.size()), ' ') << text << '\n';
}

std::string number(const json& value) {
    return grouped(value.get<std::int64_t>());
}

std::string joined(const json& texts) {
    std::string out;
    for (const json& text : texts) out += (out.empty() ? "" : ", ") + text.get<std::string>();
    return out;
}

void print_checkpoint(const json& facts) {
    const std::string optimizer = facts["optimizer"], fingerprint = facts["dataset_fingerprint"];
    print_line("step", number(facts["step"]) + ", after " + number(facts["updates"]) + " updates");
    print_line("consumed", number(facts["consumed_samples"]) + " samples, " +
                               number(facts["consumed_tokens"]) + " tokens");
    const json& grid = facts["grid"];
    print_line("grid", number(grid["tp"]) + "x" + number(grid["pp"]) + "x" + number(grid["dp"]) +
                           " (tensor x pipeline x data), schedule " + facts["schedule"].get<std::string>());
    print_line("optimizer", optimizer == "adamw"  ? "adamw, with both moments"
                            : optimizer == "none" ? "none: weights alone"
                                                  : optimizer);
    print_line("data", fingerprint.empty() ? "none" : "fingerprint " + fingerprint);
    print_line("seed", facts["seed"].dump());
    print_line("saved", facts["saved"].get<std::string>() + " by escalier " +
                            facts["tool_version"].get<std::string>());
}

void print_files(const json& facts) {
    std::uint64_t bytes = 0;
    for (const json& file : facts["files"]) bytes += file["bytes"].get<std::uint64_t>();
    print_line("files", std::to_string(facts["files"].size()) + ", " +
                            grouped(static_cast<std::int64_t>(bytes)) + " bytes");
    for (const json& file : facts["files"])
        print_line("", file["name"].get<std::string>() + "  " + number(file["bytes"]) + " bytes  xxh3_128 " +
                           file["xxh3_128"].get<std::string>());
    if (!facts["assets"].empty()) print_line("hf", joined(facts["assets"]));
}

void print_tensors(const json& list) {
    for (const json& tensor : list) {
        std::cout << checkpoint::name_text(tensor["name"]) << "  " << tensor["dtype"].get<std::string>()
                  << ' ' << tensor["shape"].dump() << '\n';
        if (!tensor.contains("pieces")) continue;
        for (const auto& [kind, pieces] : tensor["pieces"].items())
            for (const json& piece : pieces)
                std::cout << "    " << kind << "  " << piece["file"].get<std::string>() << "  "
                          << piece["key"].get<std::string>() << '\n';
    }
}

int run_info(const InfoArguments& arguments) {
    const auto& keys = arguments.ignored_keys;
    require_folder_of_keys(keys, {arguments.path});
    const OpenedTensors opened = open_tensors(arguments.path, {keys.begin(), keys.end()});
    const json facts = facts_of(opened, arguments);
    if (arguments.as_json) {
        std::cout << facts.dump(2, ' ', false, json::error_handler_t::replace) << '\n';
        return 0;
    }
    print_line(opened.reader ? "checkpoint" : "weights in", opened.note.empty() ? opened.path : opened.note);
    if (opened.reader) print_checkpoint(facts);
    if (facts.contains("model")) {
        print_line("model", facts["model"]);
        print_line("text", "sequences of " + number(facts["seq_len"]) + " tokens, tokenizer " +
                               facts["tokenizer"].get<std::string>());
    }
    const json& weights = facts["weights"];
    print_line("tensors", number(weights["tensors"]) + " weights, " + number(weights["elements"]) +
                              " elements, " + joined(weights["dtypes"]));
    if (opened.reader) print_files(facts);
    if (arguments.tensors) print_tensors(facts["tensors"]);
    return 0;
}

}  // namespace

void add_ckpt_info_command(CLI::App& ckpt, std::function<int()>& action) {
    auto arguments = std::make_shared<InfoArguments>();
    CLI::App* command = ckpt.add_subcommand("info", "Print what a checkpoint is of and what it holds");
    command
        ->add_option("path", arguments->path,
                     "Run folder (its newest checkpoint), step folder, Hugging Face folder, or file of train "
                     "--save-weights")
        ->required();
    command->add_flag("--tensors", arguments->tensors, "List every tensor with its pieces");
    add_ignored_keys(*command, arguments->ignored_keys);
    command->add_flag("--json", arguments->as_json, "Print JSON");
    command->callback([arguments, &action] { action = [arguments] { return run_info(*arguments); }; });
}

}  // namespace escalier::apps
