#include "data/text_file.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/mapped_file.h"
#include "data/documents.h"
#include "data/fingerprint.h"
#include "data/token_decode.h"
#include "data/tokenizer.h"

namespace escalier::data {
namespace {

constexpr std::int64_t max_jsonl_bytes = std::int64_t{256} << 20;

class ByteTextFile final : public TokenFile {
 public:
    explicit ByteTextFile(const std::string& path)
        : TokenFile(path, FileFormat::text, TokenType::u8), file_(path) {
        if (file_.size() > 0) set_size(file_.size() + 1, 0);
    }
    std::uint64_t fingerprint() const override { return hash_contents(file_.data(), file_.size()); }

 private:
    void read_checked(std::int64_t begin, std::int64_t count, std::int64_t vocab_size,
                      std::int32_t* out) const override {
        const std::int64_t from_file = std::min(count, file_.size() - begin);
        const std::int64_t bad = decode(TokenType::u8, file_.data() + begin, from_file, vocab_size, out);
        if (bad >= 0) bad_id(begin + bad, stored_id(TokenType::u8, file_.data() + begin + bad), vocab_size);
        if (from_file == count) return;
        if (byte_eod >= vocab_size) bad_id(file_.size(), byte_eod, vocab_size);
        out[from_file] = byte_eod;
    }

    MappedFile file_;
};

class JsonlFile final : public TokenFile {
 public:
    explicit JsonlFile(const std::string& path) : TokenFile(path, FileFormat::jsonl, TokenType::u16) {
        const MappedFile file(path);
        if (file.size() > max_jsonl_bytes)
            throw ConfigError(
                path + ": has " + std::to_string(file.size()) +
                " bytes; JSONL above 256 MiB is not read directly. Pack it once: escalier data pack " + path +
                " OUTPREFIX, and give OUTPREFIX in data.train");
        for_each_document(file, DocumentKind::jsonl, "text", [&](std::string_view document) {
            begins_.push_back(static_cast<std::int64_t>(ids_.size()));
            for (unsigned char byte : document) ids_.push_back(byte);
            ids_.push_back(byte_eod);
        });
        begins_.push_back(static_cast<std::int64_t>(ids_.size()));
        set_size(static_cast<std::int64_t>(ids_.size()), static_cast<std::int64_t>(begins_.size()) - 1);
    }
    std::int64_t document_begin(std::int64_t document) const override {
        return begins_[static_cast<std::size_t>(document)];
    }
    std::uint64_t fingerprint() const override {
        return hash_contents(reinterpret_cast<const std::byte*>(ids_.data()), bytes());
    }

 private:
    void read_checked(std::int64_t begin, std::int64_t count, std::int64_t vocab_size,
                      std::int32_t* out) const override {
        const auto* from = reinterpret_cast<const std::byte*>(ids_.data() + begin);
        const std::int64_t bad = decode(TokenType::u16, from, count, vocab_size, out);
        if (bad >= 0) bad_id(begin + bad, ids_[static_cast<std::size_t>(begin + bad)], vocab_size);
    }

    std::vector<std::uint16_t> ids_;
    std::vector<std::int64_t> begins_;
};

}  // namespace

std::unique_ptr<TokenFile> open_text_file(const std::string& path, FileFormat format,
                                          const std::string& tokenizer) {
    if (tokenizer != "byte")
        throw ConfigError(
            "data.tokenizer: " + tokenizer + " with " + path + " of format " + to_string(format) +
            ": text is read directly with the byte tokenizer alone. Pack it once: escalier data pack "
            "--tokenizer " +
            tokenizer + " " + path + " OUTPREFIX, and give OUTPREFIX in data.train");
    if (format == FileFormat::text) return std::make_unique<ByteTextFile>(path);
    return std::make_unique<JsonlFile>(path);
}

}  // namespace escalier::data
