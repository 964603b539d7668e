#include "data/megatron_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/check.h"
#include "core/error.h"
#include "core/write_target.h"
#include "data/megatron_file.h"

namespace escalier::data {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 20;
constexpr std::int64_t u16_vocab_limit = 65500;

template <class T>
void put(NewFile& file, T value) {
    file.write(&value, sizeof value);
}

}  // namespace

NewFile::NewFile(const std::string& path)
    : path_(path), target_(write_target(path)), temporary_(target_ + ".tmp." + std::to_string(::getpid())) {
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail("cannot be created");
    buffer_.reserve(buffer_bytes);
}

NewFile::~NewFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!published_) ::unlink(temporary_.c_str());
}

void NewFile::fail(const std::string& what) const {
    throw IoError::write(temporary_ + ": " + what + ": " + std::strerror(errno));
}

void NewFile::write(const void* bytes, std::size_t size) {
    if (buffer_.size() + size > buffer_bytes) flush();
    const auto* from = static_cast<const char*>(bytes);
    buffer_.insert(buffer_.end(), from, from + size);
}

void NewFile::flush() {
    for (std::size_t done = 0; done < buffer_.size();) {
        const ssize_t written = ::write(descriptor_, buffer_.data() + done, buffer_.size() - done);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) fail("cannot be written");
        done += static_cast<std::size_t>(written);
    }
    buffer_.clear();
}

void NewFile::close() {
    flush();
    if (::fsync(descriptor_) != 0) fail("cannot be flushed to the disk");
    const int status = ::close(descriptor_);
    descriptor_ = -1;
    if (status != 0) fail("cannot be closed");
}

void NewFile::remove_old() const {
    if (::unlink(target_.c_str()) != 0 && errno != ENOENT)
        throw IoError::write(target_ + ": cannot be replaced: " + std::strerror(errno));
}

void NewFile::publish() {
    if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail("cannot be renamed to " + target_);
    published_ = true;
}

MegatronWriter::MegatronWriter(const std::string& prefix, std::int64_t vocab_size, std::int64_t max_sequence)
    : vocab_size_(vocab_size),
      max_sequence_(max_sequence),
      type_(vocab_size < u16_vocab_limit ? TokenType::u16 : TokenType::i32),
      tokens_file_(prefix + ".bin"),
      index_file_(prefix + ".idx") {
    ESCALIER_CHECK(max_sequence >= 1 && max_sequence <= INT32_MAX, "a sequence's length has 32 bits");
}

void MegatronWriter::add(std::span<const std::int32_t> ids) {
    while (!ids.empty()) {
        if (sequence_ == max_sequence_) end_sequence(false);
        const auto count = std::min(static_cast<std::int64_t>(ids.size()), max_sequence_ - sequence_);
        store(ids.first(static_cast<std::size_t>(count)));
        ids = ids.subspan(static_cast<std::size_t>(count));
        sequence_ += count;
        tokens_ += count;
    }
}

void MegatronWriter::store(std::span<const std::int32_t> ids) {
    std::array<std::uint16_t, 4096> narrow;
    for (std::size_t begin = 0; begin < ids.size(); begin += narrow.size()) {
        const auto part = ids.subspan(begin, std::min(narrow.size(), ids.size() - begin));
        for (std::size_t i = 0; i < part.size(); ++i) {
            if (part[i] < 0 || part[i] >= vocab_size_)
                throw DataError(tokens_file_.path() + ": the tokenizer gave id " + std::to_string(part[i]) +
                                " at position " +
                                std::to_string(tokens_ + static_cast<std::int64_t>(begin + i)) +
                                ", outside its vocabulary of " + std::to_string(vocab_size_));
            narrow[i] = static_cast<std::uint16_t>(part[i]);
        }
        if (type_ == TokenType::u16)
            tokens_file_.write(narrow.data(), 2 * part.size());
        else
            tokens_file_.write(part.data(), part.size_bytes());
    }
}

void MegatronWriter::end_sequence(bool ends_document) {
    lengths_.push_back(static_cast<std::int32_t>(sequence_));
    ends_document_.push_back(ends_document);
    sequence_ = 0;
}

void MegatronWriter::end_document() {
    if (sequence_ == 0) return;
    end_sequence(true);
    ++documents_;
}

void MegatronWriter::finish() {
    write_index();
    tokens_file_.close();
    index_file_.close();
    // Without its index a .bin is not read, so no moment shows a pair that does not belong together.
    index_file_.remove_old();
    tokens_file_.publish();
    index_file_.publish();
}

void MegatronWriter::write_index() {
    index_file_.write(megatron_magic, sizeof megatron_magic);
    put(index_file_, std::uint64_t{1});
    put(index_file_, static_cast<std::uint8_t>(type_ == TokenType::u16 ? 8 : 4));
    put(index_file_, static_cast<std::uint64_t>(lengths_.size()));
    put(index_file_, static_cast<std::uint64_t>(documents_ + 1));
    for (std::int32_t length : lengths_) put(index_file_, length);
    std::int64_t pointer = 0;
    for (std::int32_t length : lengths_) {
        put(index_file_, pointer);
        pointer += std::int64_t{length} * width(type_);
    }
    put(index_file_, std::int64_t{0});
    for (std::size_t i = 0; i < lengths_.size(); ++i)
        if (ends_document_[i]) put(index_file_, static_cast<std::int64_t>(i + 1));
}

}  // namespace escalier::data
