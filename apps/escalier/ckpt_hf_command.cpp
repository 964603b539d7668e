#include "ckpt_hf_command.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/hf_export.h"
#include "checkpoint/hf_import.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/verify.h"
#include "ckpt_open.h"
#include "config/model_facts.h"
#include "core/text.h"
#include "data/tokenizer.h"
#include "number_options.h"
#include "train/model_source.h"

namespace escalier::apps {
namespace {

namespace fs = std::filesystem;

struct ImportArguments {
    std::string directory;
    std::string out;
    std::vector<std::string> ignored_keys;
};

std::string joined(const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
    return out;
}

// The tokenizer.model of a folder, if it is one that Escalier reads.
bool has_sentencepiece(const std::string& directory) {
    const std::string path = directory + "/tokenizer.model";
    if (!fs::is_regular_file(path)) return false;
    try {
        data::make_tokenizer("sp:" + path, path);
        return true;
    } catch (const Error&) {
        return false;
    }
}

int run_import(const ImportArguments& arguments) {
    checkpoint::HfImportOptions options;
    options.ignored_keys = {arguments.ignored_keys.begin(), arguments.ignored_keys.end()};
    options.tool_version = ESCALIER_VERSION;
    const bool sentencepiece = has_sentencepiece(arguments.directory);
    if (sentencepiece)
        options.tokenizer = "sp:" + arguments.out + "/" + checkpoint::step_directory_name(0) + "/" +
                            checkpoint::assets_name + "/tokenizer.model";
    checkpoint::PosixFiles files;
    const checkpoint::HfImportResult result =
        checkpoint::import_hf(arguments.directory, arguments.out, options, files);
    for (const std::string& warning : result.warnings) std::cerr << "warning: " << warning << "\n";
    std::cout << result.step_directory << ": " << grouped(config::parameter_count(result.model))
              << " parameters in " << result.tensors << " tensors\n";
    if (!result.assets.empty()) std::cout << "carried along: " << joined(result.assets) << "\n";
    std::cout
        << "The model for a job file, also in " << arguments.out << "/model.yaml"
        << " (made for sequences of up to " << grouped(result.max_positions) << " tokens):\n\n"
        << checkpoint::model_section(result.model) << "\nGo on from these weights:\n"
        << "  escalier train JOB.yaml --resume " << arguments.out << "\n"
        << "  escalier generate --ckpt " << arguments.out
        << (sentencepiece
                ? " --prompt TEXT\n"
                : " --prompt-ids 1,2,3\n"
                  "The tokenizer is not one of Escalier's: train on token files that were made with it, such "
                  "as Megatron's .bin and .idx.\n");
    return 0;
}

struct ExportArguments {
    std::string source;
    std::string directory;
    checkpoint::HfExportOptions options;
};

int run_export(const ExportArguments& arguments) {
    train::ModelSource source;
    std::string assets;
    if (fs::is_regular_file(arguments.source)) {
        source = train::open_weight_file(arguments.source);
    } else {
        const train::FoundCheckpoint found = train::find_checkpoint(arguments.source);
        if (!found.note.empty()) std::cerr << "note: " << found.note << "\n";
        source = train::open_checkpoint(found.directory);
        checkpoint::verify_model(*source.snapshot);
        assets = source.snapshot->assets_directory();
    }
    checkpoint::PosixFiles files;
    const checkpoint::HfExportResult result =
        checkpoint::export_hf(source.weights(), source.about.model, source.about.seq_len, assets,
                              arguments.directory, arguments.options, files);
    std::cout << arguments.directory << ": " << result.tensors << " tensors, "
              << grouped(config::parameter_count(source.about.model)) << " parameters in "
              << arguments.options.dtype << ", " << grouped(static_cast<std::int64_t>(result.bytes))
              << " bytes in " << result.files << (result.files == 1 ? " file\n" : " files\n");
    if (!result.assets.empty()) std::cout << "carried along: " << joined(result.assets) << "\n";
    return 0;
}

void add_import(CLI::App& ckpt, std::function<int()>& action) {
    CLI::App* command = ckpt.add_subcommand(
        "import-hf", "Make a run folder of a Hugging Face model: GPT-2, Llama, Qwen2 or Qwen3");
    auto arguments = std::make_shared<ImportArguments>();
    command->add_option("dir", arguments->directory, "Folder with config.json and safetensors files")
        ->required();
    command->add_option("out", arguments->out, "New run folder")->required();
    add_ignored_keys(*command, arguments->ignored_keys);
    command->callback([arguments, &action] { action = [arguments] { return run_import(*arguments); }; });
}

void add_export(CLI::App& ckpt, std::function<int()>& action) {
    CLI::App* command =
        ckpt.add_subcommand("export-hf", "Write a checkpoint as a folder that transformers loads");
    auto arguments = std::make_shared<ExportArguments>();
    command
        ->add_option("checkpoint", arguments->source,
                     "Run folder (its newest checkpoint), step folder, or file of train --save-weights")
        ->required();
    command->add_option("dir", arguments->directory, "New folder")->required();
    command->add_option("--dtype", arguments->options.dtype, "Type of the weights")
        ->check(CLI::IsMember({"fp32", "bf16", "fp16"}))
        ->capture_default_str();
    command
        ->add_option("--max-shard-size", arguments->options.max_shard_bytes,
                     "Most bytes of tensors in one file")
        ->check(whole_number(1))
        ->capture_default_str();
    command->callback([arguments, &action] { action = [arguments] { return run_export(*arguments); }; });
}

}  // namespace

void add_ckpt_hf_commands(CLI::App& ckpt, std::function<int()>& action) {
    add_import(ckpt, action);
    add_export(ckpt, action);
}

}  // namespace escalier::apps
