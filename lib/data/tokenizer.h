// Text to token ids and back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace escalier::data {

// Const use from several threads is safe.
class Tokenizer {
 public:
    virtual ~Tokenizer() = default;
    virtual std::int64_t vocab_size() const = 0;
    // The id that ends a document (and text generation); -1 when the tokenizer has none.
    virtual std::int32_t eod() const = 0;
    // Appends the ids of `text`; no id is added at begin or end.
    virtual void encode(std::string_view text, std::vector<std::int32_t>& ids) const = 0;
    // Control ids (end of document and the like) give no text. Throws DataError for an id outside the
    // vocabulary.
    virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
};

// The byte tokenizer: ids 0-255 are the bytes, 256 ends a document.
inline constexpr std::int32_t byte_eod = 256;
inline constexpr std::int64_t byte_vocab_size = 257;

// `spec` as in data.tokenizer: byte | sp:PATH (a SentencePiece model). `origin` is the key or flag it came
// from, for messages. Throws ConfigError for any other spec, IoError or DataError for a model file that is
// absent or damaged.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& spec,
                                          const std::string& origin = "data.tokenizer");

}  // namespace escalier::data
