#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "checkpoint/file_layer.h"
#include "checkpoint/safetensors.h"
#include "core/write_target.h"

namespace escalier::checkpoint {

namespace {

// Written to the disk as the file grows, so that the end is not one long wait.
constexpr std::uint64_t bytes_between_syncs = 256 << 20;

std::string header_text(const std::map<std::string, Shape>& tensors, Metadata metadata) {
    std::vector<HeaderEntry> entries;
    for (const auto& [name, shape] : tensors) {
        HeaderEntry& entry = entries.emplace_back(HeaderEntry{name, {}, "F32"});
        for (int axis = 0; axis < shape.rank(); ++axis) entry.shape.push_back(shape[axis]);
    }
    return file_header(entries, std::move(metadata));
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::string& path)
    : path_(path), target_(write_target(path)), temporary_(target_ + ".tmp") {
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail("cannot be created");
}

// Delegates, so that the destructor removes the file if the header cannot be written.
SafetensorsWriter::SafetensorsWriter(const std::string& path, const std::map<std::string, Shape>& tensors,
                                     Metadata metadata)
    : SafetensorsWriter(path) {
    const std::string header = header_text(tensors, std::move(metadata));
    write(header.data(), header.size());
    for (const auto& [name, shape] : tensors)
        data_bytes_left_ += static_cast<std::uint64_t>(shape.elements()) * sizeof(float);
}

SafetensorsWriter::~SafetensorsWriter() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    ::unlink(temporary_.c_str());
}

void SafetensorsWriter::append(std::span<const float> values) {
    ESCALIER_CHECK(values.size_bytes() <= data_bytes_left_, "more values than the header names");
    write(values.data(), values.size_bytes());
    data_bytes_left_ -= values.size_bytes();
    bytes_since_sync_ += values.size_bytes();
    if (bytes_since_sync_ < bytes_between_syncs) return;
    if (::fdatasync(descriptor_) < 0) fail("cannot be written");
    bytes_since_sync_ = 0;
}

void SafetensorsWriter::finish() {
    ESCALIER_CHECK(data_bytes_left_ == 0, "fewer values than the header names");
    if (::fsync(descriptor_) < 0) fail("cannot be written");
    if (::rename(temporary_.c_str(), target_.c_str()) < 0) fail("cannot take its name");
    ::close(std::exchange(descriptor_, -1));
    PosixFiles().sync_directory(std::filesystem::absolute(target_).parent_path().string());
}

void SafetensorsWriter::write(const void* data, std::size_t bytes) {
    const char* position = static_cast<const char*>(data);
    while (bytes > 0) {
        const ssize_t written = ::write(descriptor_, position, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) fail("cannot be written");
        position += written;
        bytes -= static_cast<std::size_t>(written);
    }
}

void SafetensorsWriter::fail(const std::string& what) const {
    const int error = errno;
    throw IoError::write(path_ + ": " + what + ": " + std::strerror(error) +
                         ". Free space or choose another path.");
}

}  // namespace escalier::checkpoint
