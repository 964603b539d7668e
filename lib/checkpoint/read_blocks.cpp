#include "checkpoint/read_blocks.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "core/descriptor.h"
#include "core/error.h"

namespace escalier::checkpoint {

void read_blocks(const std::string& path,
                 const std::function<void(const char* data, std::size_t bytes)>& take) {
    const auto fail = [&](const char* what) {
        throw IoError::read(path + ": " + what + ": " + std::strerror(errno));
    };
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (file.number() < 0) fail("cannot open");
    ::posix_fadvise(file.number(), 0, 0, POSIX_FADV_SEQUENTIAL);
    constexpr std::size_t least = 4096, most = std::size_t{1} << 20;
    struct stat facts {};
    ::fstat(file.number(), &facts);  // without a size a small buffer does, too
    std::vector<char> buffer(std::clamp(static_cast<std::size_t>(facts.st_size), least, most));
    for (;;) {
        const ssize_t bytes = ::read(file.number(), buffer.data(), buffer.size());
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes < 0) fail("cannot be read");
        if (bytes == 0) return;
        take(buffer.data(), static_cast<std::size_t>(bytes));
    }
}

}  // namespace escalier::checkpoint
