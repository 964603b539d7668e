#include "data/token_file.h"

#include <algorithm>
#include <array>

#include "core/check.h"
#include "core/error.h"
#include "data/flat_file.h"
#include "data/megatron_file.h"
#include "data/text_file.h"

namespace escalier::data {

std::string to_string(FileFormat format) {
    switch (format) {
        case FileFormat::megatron:
            return "megatron";
        case FileFormat::llmc:
            return "llmc";
        case FileFormat::raw16:
            return "raw16";
        case FileFormat::raw32:
            return "raw32";
        case FileFormat::jsonl:
            return "jsonl";
        case FileFormat::text:
            return "text";
    }
    return "";
}

std::string to_string(TokenType type) {
    switch (type) {
        case TokenType::u8:
            return "u8";
        case TokenType::i8:
            return "i8";
        case TokenType::i16:
            return "i16";
        case TokenType::u16:
            return "u16";
        case TokenType::i32:
            return "i32";
        case TokenType::u32:
            return "u32";
        case TokenType::i64:
            return "i64";
    }
    return "";
}

int width(TokenType type) {
    switch (type) {
        case TokenType::u8:
        case TokenType::i8:
            return 1;
        case TokenType::i16:
        case TokenType::u16:
            return 2;
        case TokenType::i32:
        case TokenType::u32:
            return 4;
        case TokenType::i64:
            return 8;
    }
    return 0;
}

std::int64_t TokenFile::document_begin(std::int64_t) const {
    throw InternalError(path_ + ": asked for documents of a format without them");
}

void TokenFile::read(std::int64_t begin, std::int64_t count, std::int64_t vocab_size,
                     std::int32_t* out) const {
    ESCALIER_CHECK(begin >= 0 && count >= 0 && begin <= tokens_ && count <= tokens_ - begin,
                   path_ + ": read outside the file");
    read_checked(begin, count, vocab_size, out);
}

void TokenFile::check(std::int64_t begin, std::int64_t count, std::int64_t vocab_size) const {
    std::array<std::int32_t, 8192> buffer;
    for (std::int64_t done = 0; done < count;) {
        const std::int64_t piece = std::min<std::int64_t>(count - done, buffer.size());
        read(begin + done, piece, vocab_size, buffer.data());
        done += piece;
    }
}

void TokenFile::bad_id(std::int64_t position, std::int64_t id, std::int64_t vocab_size) const {
    throw DataError(path_ + ": token at position " + std::to_string(position) + " has id " +
                    std::to_string(id) + ", outside the vocabulary of " + std::to_string(vocab_size) +
                    " (ids 0 to " + std::to_string(vocab_size - 1) +
                    "). Set model.vocab_size to the tokenizer's size, or check the file's data.format");
}

std::unique_ptr<TokenFile> open_token_file(const std::string& path, const std::string& format,
                                           const std::string& tokenizer) {
    FileFormat kind{};
    if (format == "auto") {
        kind = sniff_format(path);
    } else {
        const std::array all = {FileFormat::megatron, FileFormat::llmc,  FileFormat::raw16,
                                FileFormat::raw32,    FileFormat::jsonl, FileFormat::text};
        const auto* found =
            std::find_if(all.begin(), all.end(), [&](FileFormat one) { return to_string(one) == format; });
        if (found == all.end())
            throw ConfigError("data.format: " + format +
                              " is not known; use auto, megatron, llmc, raw16, raw32, jsonl or text");
        kind = *found;
    }
    switch (kind) {
        case FileFormat::megatron:
            return open_megatron_file(path);
        case FileFormat::llmc:
            return open_llmc_file(path);
        case FileFormat::raw16:
        case FileFormat::raw32:
            return open_raw_file(path, kind);
        case FileFormat::jsonl:
        case FileFormat::text:
            return open_text_file(path, kind, tokenizer);
    }
    return nullptr;
}

}  // namespace escalier::data
