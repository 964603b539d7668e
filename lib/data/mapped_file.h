// A whole file, mapped read-only. Nothing is ever written beside the data, so read-only folders work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace escalier::data {

class MappedFile {
 public:
    // Throws IoError (exit 66), naming the file, when it is absent, unreadable or not a regular file.
    explicit MappedFile(const std::string& path);
    ~MappedFile();
    MappedFile(MappedFile&& other) noexcept;
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    MappedFile& operator=(MappedFile&&) = delete;

    const std::string& path() const { return path_; }
    const std::byte* data() const { return data_; }  // null for an empty file
    std::int64_t size() const { return size_; }      // bytes

 private:
    std::string path_;
    const std::byte* data_ = nullptr;
    std::int64_t size_ = 0;
};

// A little-endian number at any address: the headers of token files are not aligned.
template <class T>
T load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

}  // namespace escalier::data
