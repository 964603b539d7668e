// SentencePiece models (tokenizer.model of Llama 1 and 2, Mistral and others).
#pragma once

#include <memory>
#include <string>

#include "data/tokenizer.h"

namespace escalier::data {

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& path);

}  // namespace escalier::data
