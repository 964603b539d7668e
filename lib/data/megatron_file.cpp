#include "data/megatron_file.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "data/fingerprint.h"
#include "data/little_endian.h"
#include "data/token_decode.h"

namespace escalier::data {
namespace {

TokenType type_of(const std::string& path, int code) {
    switch (code) {
        case 1:
            return TokenType::u8;
        case 2:
            return TokenType::i8;
        case 3:
            return TokenType::i16;
        case 4:
            return TokenType::i32;
        case 5:
            return TokenType::i64;
        case 8:
            return TokenType::u16;
        default:
            throw DataError(path + ": dtype code " + std::to_string(code) +
                            " at byte 17, token ids have 1 to 5 or 8 (u16: 8, i32: 4)");
    }
}

// The fields of a checked index, in place.
struct Index {
    TokenType type = TokenType::u16;
    std::int64_t sequences = 0;
    const std::byte* lengths = nullptr;
    const std::byte* pointers = nullptr;

    std::int64_t length(std::int64_t i) const { return load<std::int32_t>(lengths + 4 * i); }
    std::int64_t pointer(std::int64_t i) const { return load<std::int64_t>(pointers + 8 * i); }
};

Index parse_index(const MappedFile& file) {
    const std::string& path = file.path();
    const auto fail = [&](const std::string& what) { throw DataError(path + ": " + what); };
    if (!has_megatron_magic(file)) fail("does not start with the magic MMIDIDX of a Megatron index");
    if (file.size() < megatron_header_bytes)
        fail("has " + std::to_string(file.size()) + " bytes, the header alone has 34: the file is truncated");
    const auto version = load<std::uint64_t>(file.data() + 9);
    if (version != 1) fail("version " + std::to_string(version) + " at byte 9, only 1 is known");
    Index index;
    index.type = type_of(path, load<std::uint8_t>(file.data() + 17));
    const auto sequences = load<std::uint64_t>(file.data() + 18);
    const auto ends = load<std::uint64_t>(file.data() + 26);
    const auto size = static_cast<std::uint64_t>(file.size());
    // Each is bounded by the file before it is multiplied, so a damaged count cannot overflow.
    const bool fits = sequences <= size / 12 && ends <= size / 8;
    const std::uint64_t wanted = fits ? 34 + 12 * sequences + 8 * ends : 0;
    if (!fits || (size != wanted && size != wanted + sequences))
        fail("has " + std::to_string(size) + " bytes, but " + std::to_string(sequences) + " sequences and " +
             std::to_string(ends) + " document ends need 34 + 12 x sequences + 8 x ends" +
             (fits ? " = " + std::to_string(wanted) : "") +
             "; the index is truncated or damaged: make it again");
    index.sequences = static_cast<std::int64_t>(sequences);
    index.lengths = file.data() + megatron_header_bytes;
    index.pointers = index.lengths + 4 * sequences;
    const std::byte* documents = index.pointers + 8 * sequences;
    std::int64_t previous = 0;
    for (std::uint64_t i = 0; i < ends; ++i) {
        const auto end = load<std::int64_t>(documents + 8 * i);
        if (end < previous || end > index.sequences || (i == 0 && end != 0))
            fail("document end " + std::to_string(i) + " is " + std::to_string(end) +
                 "; they start at 0, never fall and stay within " + std::to_string(sequences) + " sequences");
        previous = end;
    }
    if (ends == 0 || previous != index.sequences)
        fail("the last document ends at sequence " + std::to_string(previous) + " of " +
             std::to_string(sequences));
    return index;
}

class MegatronFile final : public TokenFile {
 public:
    MegatronFile(MappedFile index_file, MappedFile tokens_file, const Index& index)
        : TokenFile(tokens_file.path(), FileFormat::megatron, index.type),
          index_file_(std::move(index_file)),
          tokens_file_(std::move(tokens_file)),
          index_(index) {
        const std::int64_t bytes_each = width(type());
        std::int64_t total = 0;
        for (std::int64_t i = 0; i < index_.sequences; ++i) {
            const std::int64_t length = index_.length(i), pointer = index_.pointer(i);
            if (length < 0 || pointer < 0 || pointer > tokens_file_.size() ||
                length > (tokens_file_.size() - pointer) / bytes_each)
                throw DataError(index_file_.path() + ": sequence " + std::to_string(i) + " has " +
                                std::to_string(length) + " tokens at byte " + std::to_string(pointer) +
                                ", but " + path() + " has " + std::to_string(tokens_file_.size()) +
                                " bytes; the pair does not belong together or is truncated");
            contiguous_ = contiguous_ && pointer == total * bytes_each;
            total += length;
        }
        // Files as every writer makes them are contiguous, and then the pointers are the prefix sums. Others
        // may leave tokens out, but never count one twice.
        const std::int64_t counted = total * bytes_each;
        if (counted > tokens_file_.size() || (contiguous_ && counted != tokens_file_.size()))
            throw DataError(path() + ": has " + std::to_string(tokens_file_.size()) +
                            " bytes, but its index counts " + std::to_string(total) + " tokens of " +
                            std::to_string(bytes_each) + " bytes = " + std::to_string(counted) +
                            "; the pair does not belong together");
        if (!contiguous_) {
            begins_.reserve(static_cast<std::size_t>(index_.sequences));
            std::int64_t begin = 0;
            for (std::int64_t i = 0; i < index_.sequences; begin += index_.length(i++))
                begins_.push_back(begin);
        }
        set_size(total, index_.sequences);
    }

    std::int64_t document_begin(std::int64_t document) const override {
        if (document == index_.sequences) return tokens();
        return contiguous_ ? index_.pointer(document) / width(type())
                           : begins_[static_cast<std::size_t>(document)];
    }
    std::uint64_t fingerprint() const override {
        return mix(hash_contents(index_file_.data(), index_file_.size()),
                   hash_contents(tokens_file_.data(), tokens_file_.size()));
    }

 private:
    void read_checked(std::int64_t begin, std::int64_t count, std::int64_t vocab_size,
                      std::int32_t* out) const override {
        if (contiguous_) return read_piece(begin * width(type()), count, vocab_size, out);
        if (count == 0) return;
        auto sequence = std::upper_bound(begins_.begin(), begins_.end(), begin) - begins_.begin() - 1;
        while (count > 0) {
            const std::int64_t skip = begin - begins_[static_cast<std::size_t>(sequence)];
            const std::int64_t piece = std::min(count, index_.length(sequence) - skip);
            if (piece > 0)
                read_piece(index_.pointer(sequence) + skip * width(type()), piece, vocab_size, out);
            begin += piece;
            count -= piece;
            out += piece;
            ++sequence;
        }
    }
    void read_piece(std::int64_t byte, std::int64_t count, std::int64_t vocab_size, std::int32_t* out) const {
        const std::byte* from = tokens_file_.data() + byte;
        const std::int64_t bad = decode(type(), from, count, vocab_size, out);
        if (bad >= 0)
            bad_id(byte / width(type()) + bad, stored_id(type(), from + bad * width(type())), vocab_size);
    }

    MappedFile index_file_;
    MappedFile tokens_file_;
    Index index_;
    bool contiguous_ = true;
    std::vector<std::int64_t> begins_;  // first token of each sequence, only when not contiguous
};

}  // namespace

std::string megatron_prefix(const std::string& path) {
    return path.ends_with(".bin") || path.ends_with(".idx") ? path.substr(0, path.size() - 4) : path;
}

bool has_megatron_magic(const MappedFile& index) {
    return index.size() >= 9 && std::memcmp(index.data(), megatron_magic, sizeof megatron_magic) == 0;
}

std::unique_ptr<TokenFile> open_megatron_file(const std::string& path) {
    const std::string prefix = megatron_prefix(path);
    MappedFile index_file(prefix + ".idx");
    MappedFile tokens_file(prefix + ".bin");
    const Index index = parse_index(index_file);
    return std::make_unique<MegatronFile>(std::move(index_file), std::move(tokens_file), index);
}

}  // namespace escalier::data
