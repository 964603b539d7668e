#include "data/tokenizer.h"

#include "core/error.h"
#include "data/sentencepiece_tokenizer.h"

namespace escalier::data {
namespace {

class ByteTokenizer final : public Tokenizer {
 public:
    std::int64_t vocab_size() const override { return byte_vocab_size; }
    std::int32_t eod() const override { return byte_eod; }
    void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
        const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
        ids.insert(ids.end(), bytes, bytes + text.size());
    }
    std::string decode(std::span<const std::int32_t> ids) const override {
        std::string text;
        for (std::int32_t id : ids) {
            if (id < 0 || id >= byte_vocab_size)
                throw DataError("id " + std::to_string(id) +
                                " is outside the byte tokenizer's vocabulary of 257");
            if (id != byte_eod) text.push_back(static_cast<char>(id));
        }
        return text;
    }
};

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& spec, const std::string& origin) {
    if (spec == "byte") return std::make_unique<ByteTokenizer>();
    if (spec.starts_with("sp:") && spec.size() > 3) return make_sentencepiece_tokenizer(spec.substr(3));
    throw ConfigError(origin + ": " + spec +
                      " is not known; use byte or sp:PATH (a SentencePiece model file)");
}

}  // namespace escalier::data
