// One read interface over every token file: Megatron .bin/.idx, llm.c .bin, headerless 16- and 32-bit ids,
// and plain text or JSONL read with the byte tokenizer. formats.md section 1 describes the formats.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace escalier::data {

enum class FileFormat { megatron, llmc, raw16, raw32, jsonl, text };
enum class TokenType { u8, i8, i16, u16, i32, u32, i64 };

std::string to_string(FileFormat format);
std::string to_string(TokenType type);
int width(TokenType type);  // bytes

// The tokens of a file as one stream, documents one after another in file order. Reading is const,
// thread-safe and allocates nothing.
class TokenFile {
 public:
    virtual ~TokenFile() = default;
    TokenFile(const TokenFile&) = delete;
    TokenFile& operator=(const TokenFile&) = delete;

    const std::string& path() const { return path_; }  // the file that holds the tokens
    FileFormat format() const { return format_; }
    TokenType type() const { return type_; }
    std::int64_t tokens() const { return tokens_; }
    std::int64_t bytes() const { return tokens_ * width(type_); }
    // 0: the format does not know documents. A Megatron document is one sequence of the .idx.
    std::int64_t documents() const { return documents_; }
    // First token of a document, for document in [0, documents()]; the last value is tokens().
    virtual std::int64_t document_begin(std::int64_t document) const;

    // Tokens [begin, begin + count) into out. Throws DataError with file, position, id and vocabulary at the
    // first id outside [0, vocab_size).
    void read(std::int64_t begin, std::int64_t count, std::int64_t vocab_size, std::int32_t* out) const;
    // The same check without a destination.
    void check(std::int64_t begin, std::int64_t count, std::int64_t vocab_size) const;

    // Depends on contents alone (never on name, place or time): all bytes up to 64 MiB, beyond that the sizes
    // and 64 blocks spread over the file.
    virtual std::uint64_t fingerprint() const = 0;

 protected:
    TokenFile(std::string path, FileFormat format, TokenType type)
        : path_(std::move(path)), format_(format), type_(type) {}
    void set_size(std::int64_t tokens, std::int64_t documents) {
        tokens_ = tokens;
        documents_ = documents;
    }
    [[noreturn]] void bad_id(std::int64_t position, std::int64_t id, std::int64_t vocab_size) const;

 private:
    virtual void read_checked(std::int64_t begin, std::int64_t count, std::int64_t vocab_size,
                              std::int32_t* out) const = 0;

    std::string path_;
    FileFormat format_;
    TokenType type_;
    std::int64_t tokens_ = 0;
    std::int64_t documents_ = 0;
};

// `format` as in data.format: auto | megatron | llmc | raw16 | raw32 | jsonl | text; `tokenizer` as in
// data.tokenizer, used for text and JSONL only. `path` is the exact file, for Megatron the prefix (with or
// without .bin or .idx). Throws IoError when a file is absent, DataError when header or size are wrong,
// ConfigError when the format cannot be told.
std::unique_ptr<TokenFile> open_token_file(const std::string& path, const std::string& format = "auto",
                                           const std::string& tokenizer = "byte");

// Which format `auto` finds; throws as open_token_file does.
FileFormat sniff_format(const std::string& path);

}  // namespace escalier::data
