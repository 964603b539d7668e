#include "core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace escalier {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& why) {
    throw IoError::read(path + ": " + why);
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
    // O_NONBLOCK: the opening of a pipe that nobody writes to must not wait.
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) fail(path, std::string("cannot open: ") + std::strerror(errno));
    struct stat status {};
    if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
        ::close(descriptor);
        fail(path, "is a folder, pipe or device; a plain file is needed");
    }
    size_ = static_cast<std::int64_t>(status.st_size);
    if (size_ > 0) {
        void* address =
            ::mmap(nullptr, static_cast<std::size_t>(size_), PROT_READ, MAP_SHARED, descriptor, 0);
        const int error = errno;
        ::close(descriptor);
        if (address == MAP_FAILED) fail(path, std::string("cannot map into memory: ") + std::strerror(error));
        data_ = static_cast<const std::byte*>(address);
    } else {
        ::close(descriptor);
    }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile::~MappedFile() {
    if (data_) ::munmap(const_cast<std::byte*>(data_), static_cast<std::size_t>(size_));
}

}  // namespace escalier
