#include "train/prompt_tokenizer.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint/hf_export.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/strict_json.h"
#include "core/error.h"
#include "core/mapped_file.h"

namespace escalier::train {

namespace {

namespace fs = std::filesystem;

constexpr const char* sentencepiece_name = "tokenizer.model";

// Of a file beside the tokenizer; null where there is none, or none that can be read.
nlohmann::json value_in(const fs::path& file, const char* key) {
    try {
        const MappedFile text(file.string());
        const nlohmann::json root = checkpoint::parse_strict_json({text.bytes().data(), text.bytes().size()});
        return root.is_object() && root.contains(key) ? root[key] : nlohmann::json();
    } catch (const IoError&) {
        return nullptr;
    } catch (const checkpoint::JsonFault&) {
        return nullptr;
    }
}

// Null where the file is none of SentencePiece's: tokenizers of other kinds come in files of that name too.
std::unique_ptr<data::Tokenizer> sentencepiece_of(const fs::path& file) {
    try {
        return data::make_tokenizer("sp:" + file.string());
    } catch (const Error&) {
        return nullptr;
    }
}

// As transformers begins a text of this model.
void read_begin(const fs::path& folder, PromptTokenizer& prompt) {
    const nlohmann::json wanted = value_in(folder / "tokenizer_config.json", "add_bos_token");
    if (wanted == false) return;
    const nlohmann::json id = value_in(folder / checkpoint::hf_config_name, "bos_token_id");
    if (wanted == true && id.is_number_integer() && id >= 0 && id < prompt.tokenizer->vocab_size())
        prompt.begin = id.get<std::int32_t>();
    else
        prompt.note =
            "the prompt begins without a beginning-of-text id, for the model's tokenizer_config.json "
            "(add_bos_token) and config.json (bos_token_id) do not give one; --prompt-ids can";
}

// What an import writes where the tokenizer is SentencePiece's: it then lies beside the weights, wherever
// they are now.
bool names_that_of_an_import(const std::string& spec) {
    return spec.ends_with(std::string("/") + checkpoint::assets_name + "/" + sentencepiece_name);
}

}  // namespace

PromptTokenizer open_prompt_tokenizer(const ModelSource& source, const std::string& named) {
    PromptTokenizer prompt;
    const fs::path folder = source.snapshot ? source.snapshot->assets_directory() : "";
    const bool unsaid = source.about.tokenizer == "byte";  // the default
    if (named.empty() && !folder.empty() && (unsaid || names_that_of_an_import(source.about.tokenizer))) {
        prompt.tokenizer = sentencepiece_of(folder / sentencepiece_name);
        if (prompt.tokenizer) {
            read_begin(folder, prompt);
            return prompt;
        }
        const auto has = [&](const char* name) { return fs::exists(folder / name); };
        if (unsaid && (has(sentencepiece_name) || has("tokenizer.json") || has("vocab.json")))
            throw ConfigError(
                "--prompt: this model came with a tokenizer of its own (" + folder.string() +
                "), which Escalier cannot read; give --prompt-ids, or name one with --tokenizer");
    }
    const std::string spec = named.empty() ? source.about.tokenizer : named;
    try {
        prompt.tokenizer = data::make_tokenizer(spec, named.empty() ? "data.tokenizer" : "--tokenizer");
    } catch (const Error& error) {
        throw Error(error.code(), std::string(error.what()) +
                                      (named.empty() ? " (tokenizer of " + source.path + ")" : "") +
                                      "; --tokenizer names another one, and --prompt-ids works without");
    }
    return prompt;
}

}  // namespace escalier::train
