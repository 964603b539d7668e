#include "data/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include "core/error.h"
#include "core/mapped_file.h"

namespace escalier::data {
namespace {

class SentencePieceTokenizer final : public Tokenizer {
 public:
    explicit SentencePieceTokenizer(const std::string& path) : path_(path) {
        const MappedFile file(path);
        const auto status = model_.LoadFromSerializedProto(
            {reinterpret_cast<const char*>(file.data()), static_cast<std::size_t>(file.size())});
        if (!status.ok())
            throw DataError(path + ": is not a SentencePiece model (" + status.ToString() +
                            "); data.tokenizer: sp:PATH takes the .model file of spm_train");
    }
    std::int64_t vocab_size() const override { return model_.GetPieceSize(); }
    std::int32_t eod() const override { return model_.eos_id(); }
    void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
        std::vector<int> found;
        const auto status = model_.Encode({text.data(), text.size()}, &found);
        if (!status.ok()) throw DataError(path_ + ": cannot encode the text: " + status.ToString());
        ids.insert(ids.end(), found.begin(), found.end());
    }
    std::string decode(std::span<const std::int32_t> ids) const override {
        std::vector<int> wanted;
        for (std::int32_t id : ids) {
            if (id < 0 || id >= vocab_size())
                throw DataError(path_ + ": id " + std::to_string(id) + " is outside its vocabulary of " +
                                std::to_string(vocab_size()));
            if (!model_.IsControl(id)) wanted.push_back(id);
        }
        std::string text;
        const auto status = model_.Decode(wanted, &text);
        if (!status.ok()) throw DataError(path_ + ": cannot decode the ids: " + status.ToString());
        return text;
    }

 private:
    std::string path_;
    sentencepiece::SentencePieceProcessor model_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& path) {
    return std::make_unique<SentencePieceTokenizer>(path);
}

}  // namespace escalier::data
