#include "checkpoint/file_hash.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

// In the header's own code, so that it is compiled for the processor this program is for.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/error.h"

namespace escalier::checkpoint {

struct FileHash::State {
    alignas(64) XXH3_state_t hash;
};

FileHash::FileHash() : state_(std::make_unique<State>()) {
    XXH3_128bits_reset(&state_->hash);
}

FileHash::~FileHash() = default;

void FileHash::add(const void* data, std::size_t bytes) {
    XXH3_128bits_update(&state_->hash, data, bytes);
}

std::string FileHash::hex() const {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state_->hash));
    std::string out;
    for (const unsigned char byte : canonical.digest) {
        char digits[3];
        std::snprintf(digits, sizeof digits, "%02x", byte);
        out += digits;
    }
    return out;
}

std::string hash_of_file(const std::string& path) {
    const auto fail = [&](const char* what) {
        throw IoError::read(path + ": " + what + ": " + std::strerror(errno));
    };
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) fail("cannot open");
    ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_SEQUENTIAL);
    FileHash hash;
    std::vector<char> buffer(std::size_t{1} << 20);
    for (;;) {
        const ssize_t bytes = ::read(descriptor, buffer.data(), buffer.size());
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes < 0) {
            const int error = errno;
            ::close(descriptor);
            errno = error;
            fail("cannot be read");
        }
        if (bytes == 0) break;
        hash.add(buffer.data(), static_cast<std::size_t>(bytes));
    }
    ::close(descriptor);
    return hash.hex();
}

}  // namespace escalier::checkpoint
