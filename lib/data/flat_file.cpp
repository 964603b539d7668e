#include "data/flat_file.h"

#include <unistd.h>

#include <algorithm>

#include "core/error.h"
#include "data/fingerprint.h"
#include "data/little_endian.h"
#include "data/megatron_file.h"
#include "data/token_decode.h"

namespace escalier::data {
namespace {

constexpr std::int64_t llmc_header_bytes = 1024;
constexpr std::int32_t gpt2_data = 20240520;
constexpr std::int32_t llama3_data = 20240801;
constexpr std::int32_t eval_data = 20240522;
constexpr std::int32_t weights = 20240326;
constexpr std::int32_t tokenizer = 20240328;

class FlatFile final : public TokenFile {
 public:
    FlatFile(MappedFile file, FileFormat format, TokenType type, std::int64_t offset, std::int64_t tokens)
        : TokenFile(file.path(), format, type), file_(std::move(file)), offset_(offset) {
        set_size(tokens, 0);
    }
    std::uint64_t fingerprint() const override {
        return mix(hash_contents(file_.data(), file_.size()), static_cast<std::uint64_t>(type()));
    }

 private:
    void read_checked(std::int64_t begin, std::int64_t count, std::int64_t vocab_size,
                      std::int32_t* out) const override {
        const std::byte* from = file_.data() + offset_ + begin * width(type());
        const std::int64_t bad = decode(type(), from, count, vocab_size, out);
        if (bad >= 0) bad_id(begin + bad, stored_id(type(), from + bad * width(type())), vocab_size);
    }

    MappedFile file_;
    std::int64_t offset_;
};

// 32-bit ids below 65,536 read as 16-bit ones give a zero in every other place. 64 tokens are enough to be
// sure.
bool looks_like_wider_ids(const MappedFile& file) {
    const std::int64_t tokens = std::min<std::int64_t>(file.size() / 2, 1 << 16);
    if (tokens < 64) return false;
    bool some_id = false;
    for (std::int64_t i = 0; i < tokens; ++i) {
        const bool zero = load<std::uint16_t>(file.data() + 2 * i) == 0;
        if (i % 2 == 1 && !zero) return false;
        some_id |= !zero;
    }
    return some_id;
}

}  // namespace

bool has_llmc_magic(const MappedFile& file) {
    if (file.size() < 8) return false;
    const auto magic = load<std::int32_t>(file.data());
    const auto version = load<std::int32_t>(file.data() + 4);
    return (magic == gpt2_data && version == 1) || (magic == llama3_data && version == 7) ||
           (magic == eval_data && version == 1) || (magic == weights && (version == 3 || version == 5)) ||
           (magic == tokenizer && (version == 1 || version == 2));
}

std::unique_ptr<TokenFile> open_llmc_file(const std::string& path) {
    MappedFile file(path);
    if (file.size() < llmc_header_bytes)
        throw DataError(path + ": has " + std::to_string(file.size()) +
                        " bytes, an llm.c token file starts with a header of 1024; check data.format");
    const auto magic = load<std::int32_t>(file.data());
    const auto version = load<std::int32_t>(file.data() + 4);
    const auto count = load<std::int32_t>(file.data() + 8);
    if (magic == eval_data || magic == weights || magic == tokenizer)
        throw DataError(path + ": is an llm.c " +
                        (magic == eval_data ? "evaluation"
                         : magic == weights ? "weights"
                                            : "tokenizer") +
                        " file (magic " + std::to_string(magic) + "), not a token file for training");
    if (magic != gpt2_data && magic != llama3_data)
        throw DataError(path + ": starts with " + std::to_string(magic) +
                        ", an llm.c token file with 20240520 (16-bit ids) or 20240801 (32-bit ids)");
    const std::int32_t wanted = magic == gpt2_data ? 1 : 7;
    if (version != wanted)
        throw DataError(path + ": version " + std::to_string(version) + " in the header, " +
                        std::to_string(wanted) + " is the known one for magic " + std::to_string(magic));
    const TokenType type = magic == gpt2_data ? TokenType::u16 : TokenType::u32;
    const std::int64_t wanted_bytes = llmc_header_bytes + std::int64_t{count} * width(type);
    if (count < 0 || file.size() != wanted_bytes)
        throw DataError(path + ": has " + std::to_string(file.size()) + " bytes, but its header counts " +
                        std::to_string(count) + " tokens of " + std::to_string(width(type)) + " bytes" +
                        (count < 0 ? "" : " = " + std::to_string(wanted_bytes) + " bytes in all") +
                        "; the file is truncated or damaged: fetch or write it again");
    return std::make_unique<FlatFile>(std::move(file), FileFormat::llmc, type, llmc_header_bytes, count);
}

std::unique_ptr<TokenFile> open_raw_file(const std::string& path, FileFormat format) {
    MappedFile file(path);
    const std::string name = to_string(format);
    const TokenType type = format == FileFormat::raw16 ? TokenType::u16 : TokenType::u32;
    if (has_llmc_magic(file))
        throw DataError(path + ": data.format is " + name +
                        ", but the file has an llm.c header; set data.format: llmc");
    const std::string prefix = megatron_prefix(path);
    if (prefix != path && ::access((prefix + ".idx").c_str(), R_OK) == 0 &&
        has_megatron_magic(MappedFile(prefix + ".idx")))
        throw DataError(path + ": data.format is " + name + ", but " + prefix +
                        ".idx makes it a Megatron data set; set data.format: megatron");
    if (file.size() % width(type) != 0)
        throw DataError(path + ": has " + std::to_string(file.size()) + " bytes, not a multiple of the " +
                        std::to_string(width(type)) + " bytes of a " + name +
                        " token; the file is truncated or data.format is wrong");
    if (format == FileFormat::raw16 && looks_like_wider_ids(file))
        throw DataError(path +
                        ": every second 16-bit id is 0, so these are 32-bit ids; set data.format: raw32");
    const std::int64_t tokens = file.size() / width(type);
    return std::make_unique<FlatFile>(std::move(file), format, type, 0, tokens);
}

}  // namespace escalier::data
