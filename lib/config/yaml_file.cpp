#include "config/yaml_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/descriptor.h"
#include "core/error.h"

namespace escalier::config {

namespace {

constexpr std::size_t largest_file = std::size_t{1} << 20;

}  // namespace

YamlFile read_yaml_file(const std::string& path, const FileKind& kind) {
    const std::string name = std::string(kind.noun) + " " + path,
                      give = std::string("; give the path of a ") + kind.wanted;
    const auto fail = [&] { throw IoError::read(name + ": " + std::strerror(errno)); };
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) throw IoError::read(name + ": " + std::strerror(errno) + give);
    if (S_ISDIR(info.st_mode)) throw ConfigError(name + " is a folder; give the YAML file in it");
    // A pipe is opened without waiting for a writer, then read as long as it has one (process substitution).
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (file.number() < 0 || ::fcntl(file.number(), F_SETFL, 0) < 0) fail();
    std::string text(largest_file + 1, '\0');
    std::size_t size = 0;
    while (size < text.size()) {
        const ssize_t count = ::read(file.number(), text.data() + size, text.size() - size);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) fail();
        if (count == 0) break;
        size += static_cast<std::size_t>(count);
    }
    text.resize(size);
    if (text.empty() && S_ISFIFO(info.st_mode))
        throw IoError::read(name + " is not a plain file but a pipe, and nothing writes to it" + give);
    if (text.size() > largest_file)
        throw ConfigError(name + " is larger than 1 MiB: this is no " + kind.wanted + "; give the YAML file");
    return {path, std::move(text)};
}

}  // namespace escalier::config
