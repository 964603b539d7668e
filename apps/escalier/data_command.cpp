#include "data_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "config/fields.h"
#include "core/text.h"
#include "data/pack.h"
#include "data/token_file.h"
#include "data/tokenizer.h"
#include "number_options.h"

namespace escalier::apps {
namespace {

struct PackArguments {
    std::vector<std::string> paths;  // inputs, then the output prefix
    std::string tokenizer = "byte";
    std::string format = "megatron";
    bool no_eod = false;
    data::PackOptions options;
};

int run_pack(PackArguments arguments) {
    const std::string prefix = arguments.paths.back();
    arguments.paths.pop_back();
    arguments.options.append_eod = !arguments.no_eod;
    const auto tokenizer = data::make_tokenizer(arguments.tokenizer, "--tokenizer");
    const data::PackResult result = data::pack(arguments.paths, prefix, *tokenizer, arguments.options);
    std::cout << prefix << ".bin, " << prefix << ".idx: " << grouped(result.documents) << " documents, "
              << grouped(result.tokens) << " tokens of type " << to_string(result.type) << " from "
              << grouped(result.text_bytes) << " bytes of text\n"
              << "model.vocab_size must be at least " << tokenizer->vocab_size() << "\n";
    return 0;
}

struct InfoArguments {
    std::string path;
    std::string format = "auto";
    std::int64_t seq_len = 0;
};

struct IdRange {
    std::int32_t lowest = INT32_MAX;
    std::int32_t highest = INT32_MIN;
};

IdRange id_range(const data::TokenFile& file) {
    IdRange range;
    std::vector<std::int32_t> ids(std::size_t{1} << 16);
    for (std::int64_t begin = 0; begin < file.tokens(); begin += static_cast<std::int64_t>(ids.size())) {
        const auto count = std::min(static_cast<std::int64_t>(ids.size()), file.tokens() - begin);
        file.read(begin, count, std::int64_t{1} << 31, ids.data());
        for (std::int64_t i = 0; i < count; ++i) {
            range.lowest = std::min(range.lowest, ids[static_cast<std::size_t>(i)]);
            range.highest = std::max(range.highest, ids[static_cast<std::size_t>(i)]);
        }
    }
    return range;
}

// How many of the documents end with the same id as the first one, and that id.
std::string document_ends(const data::TokenFile& file) {
    std::int32_t first = -1;
    std::int64_t same = 0, seen = 0;
    for (std::int64_t i = 0; i < file.documents(); ++i) {
        const std::int64_t end = file.document_begin(i + 1);
        if (end == file.document_begin(i)) continue;
        std::int32_t last = 0;
        file.read(end - 1, 1, std::int64_t{1} << 31, &last);
        if (seen++ == 0) first = last;
        same += last == first;
    }
    if (seen == 0) return "none";
    if (same == seen) return "every document ends with id " + std::to_string(first);
    return "no common last id: packed without an end of document";
}

int run_info(const InfoArguments& arguments) {
    const auto file = data::open_token_file(arguments.path, arguments.format);
    std::cout << "file       " << file->path() << "\n"
              << "format     " << to_string(file->format()) << "\n"
              << "type       " << to_string(file->type()) << "\n"
              << "tokens     " << grouped(file->tokens()) << "\n";
    if (file->documents() > 0)
        std::cout << "documents  " << grouped(file->documents()) << "\n"
                  << "ends       " << document_ends(*file) << "\n";
    if (file->tokens() > 0) {
        const IdRange ids = id_range(*file);
        std::cout << "ids        " << ids.lowest << " to " << ids.highest << " (model.vocab_size at least "
                  << std::int64_t{ids.highest} + 1 << ")\n";
    }
    if (arguments.seq_len > 0)
        std::cout << "samples    "
                  << grouped(std::max<std::int64_t>(file->tokens() - 1, 0) / arguments.seq_len) << " of "
                  << arguments.seq_len << " tokens in the whole file\n";
    return 0;
}

void add_pack(CLI::App& data, std::function<int()>& action) {
    CLI::App* pack = data.add_subcommand("pack", "Turn text or JSONL into a token file (Megatron .bin/.idx)");
    auto arguments = std::make_shared<PackArguments>();
    pack->add_option(
            "paths", arguments->paths,
            "IN.txt|IN.jsonl ... OUTPREFIX: the files in order, then the prefix of the new .bin and .idx")
        ->required()
        ->expected(2, CLI::detail::expected_max_vector_size);
    pack->add_option("--tokenizer", arguments->tokenizer, "byte, or sp:PATH for a SentencePiece model")
        ->capture_default_str();
    pack->add_option("--format", arguments->format, "What to write")
        ->capture_default_str()
        ->check(CLI::IsMember({"megatron"}));
    pack->add_flag("--no-eod", arguments->no_eod, "Do not end each document with the end-of-document id");
    pack->add_flag("--split-blank-lines", arguments->options.split_blank_lines,
                   "Plain text: documents are separated by blank lines (default: one document per file)");
    pack->add_option("--key", arguments->options.key, "JSONL: the key that holds the text")
        ->capture_default_str();
    pack->callback([arguments, &action] { action = [arguments] { return run_pack(*arguments); }; });
}

void add_info(CLI::App& data, std::function<int()>& action) {
    CLI::App* info = data.add_subcommand("info", "Check a token file and print what it holds");
    auto arguments = std::make_shared<InfoArguments>();
    info->add_option("path", arguments->path, "Token file, or the prefix of a Megatron .bin/.idx pair")
        ->required();
    info->add_option("--format", arguments->format, "As data.format in the job spec")->capture_default_str();
    info->add_option("--seq-len", arguments->seq_len, "Count the samples of this many tokens")
        ->check(whole_number(1, config::most_sequence));
    info->callback([arguments, &action] { action = [arguments] { return run_info(*arguments); }; });
}

}  // namespace

void add_data_command(CLI::App& app, std::function<int()>& action) {
    CLI::App* data = app.add_subcommand("data", "Prepare and inspect training data");
    data->require_subcommand(1);
    add_pack(*data, action);
    add_info(*data, action);
}

}  // namespace escalier::apps
