// Writes a Megatron .bin/.idx pair as a stream: memory holds one buffer and four bytes per document.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/token_file.h"

namespace escalier::data {

// A file written under a temporary name and renamed when whole, so that its name never stands for a part.
// A link stays: the file it points to is replaced. Throws IoError (exit 74) naming the file and the system's
// reason, also for a path that is a folder, pipe, socket or device.
class NewFile {
 public:
    explicit NewFile(const std::string& path);
    ~NewFile();  // removes what was not published
    NewFile(const NewFile&) = delete;
    NewFile& operator=(const NewFile&) = delete;

    void write(const void* bytes, std::size_t size);
    void close();  // flushed to the disk
    void remove_old() const;
    void publish();  // after close
    const std::string& path() const { return path_; }

 private:
    [[noreturn]] void fail(const std::string& what) const;
    void flush();

    std::string path_;
    std::string target_;  // path_ with its links followed
    std::string temporary_;
    int descriptor_ = -1;
    bool published_ = false;
    std::vector<char> buffer_;
};

class MegatronWriter {
 public:
    // vocab_size below 65,500 is stored as u16, else as i32 (Megatron's rule). max_sequence: a longer
    // document becomes several sequences of one document, as the index counts a sequence's tokens in 32 bits.
    MegatronWriter(const std::string& prefix, std::int64_t vocab_size, std::int64_t max_sequence = INT32_MAX);

    // A document is any number of add() and one end_document(); one without tokens leaves no trace. Throws
    // DataError for an id outside the vocabulary, so nothing ever wraps.
    void add(std::span<const std::int32_t> ids);
    void end_document();
    // Writes the index and gives both files their names. The old pair, if any, is gone from then on.
    void finish();

    TokenType type() const { return type_; }
    std::int64_t tokens() const { return tokens_; }
    std::int64_t documents() const { return documents_; }

 private:
    void store(std::span<const std::int32_t> ids);
    void end_sequence(bool ends_document);
    void write_index();

    std::int64_t vocab_size_;
    std::int64_t max_sequence_;
    TokenType type_;
    NewFile tokens_file_;
    NewFile index_file_;
    std::vector<std::int32_t> lengths_;  // of the sequences
    std::vector<bool> ends_document_;    // whether a sequence is its document's last
    std::int64_t sequence_ = 0;          // tokens of the one being written
    std::int64_t tokens_ = 0, documents_ = 0;
};

}  // namespace escalier::data
