// Which tokenizer the prompt of a model goes through.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/tokenizer.h"
#include "train/model_source.h"

namespace escalier::train {

struct PromptTokenizer {
    std::unique_ptr<data::Tokenizer> tokenizer;
    std::int32_t begin = -1;  // the id that stands before every text of an imported model; -1: none
    std::string note;         // what an import's files leave open, for the user; may be empty
};

// named: as data.tokenizer, from --tokenizer. Where it is empty: the tokenizer.model that came with an
// import, unless the model was trained with a tokenizer of the user's; else the model's data.tokenizer.
// Throws ConfigError for a model that came with a tokenizer that Escalier does not read, and what
// make_tokenizer throws; both say what to do.
PromptTokenizer open_prompt_tokenizer(const ModelSource& source, const std::string& named);

}  // namespace escalier::train
