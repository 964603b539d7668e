// A whole file, mapped read-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace escalier {

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
    std::span<const char> bytes() const {
        return {reinterpret_cast<const char*>(data_), static_cast<std::size_t>(size_)};
    }

 private:
    std::string path_;
    const std::byte* data_ = nullptr;
    std::int64_t size_ = 0;
};

}  // namespace escalier
