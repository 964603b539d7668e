// Turns token ids that come one by one into text that can be printed as it comes: valid UTF-8, and never half
// a character.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "data/tokenizer.h"

namespace escalier::train {

// Bytes in, whole characters out; what is no UTF-8 becomes U+FFFD (one for each longest part that could have
// begun a character).
class Utf8Stream {
 public:
    std::string add(std::string_view bytes);  // the characters that are complete now
    std::string finish();                     // what is left of one that was cut off

 private:
    std::string pending_;  // the beginning of a character
};

class TextStream {
 public:
    explicit TextStream(const data::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

    // ids: of the whole text so far, the prompt included, which is given back as `prompt` has it.
    std::string begin(std::span<const std::int32_t> ids, std::string_view prompt);
    // The text that ids added since the last call have made certain.
    std::string add(std::span<const std::int32_t> ids);
    std::string finish(std::span<const std::int32_t> ids);

 private:
    std::string decoded(std::span<const std::int32_t> ids) const;
    std::string beyond(std::string_view text, std::size_t certain);
    void move_context(std::span<const std::int32_t> ids);

    const data::Tokenizer& tokenizer_;
    Utf8Stream characters_;
    // A token's text depends on what stands before it (a SentencePiece model strips the first space), so ids
    // are decoded from context_ on, some way back; shown_ bytes of that text are out.
    std::size_t context_ = 0, shown_ = 0;
};

}  // namespace escalier::train
