#include "scratch_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace escalier::fuzz {

ScratchFolder::ScratchFolder() {
    std::string name = std::filesystem::temp_directory_path() / "escalier_fuzz.XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), name);
    path_ = name;
}

ScratchFolder::~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::string ScratchFolder::write(const std::string& name, std::string_view bytes) const {
    const std::string path = path_ / name;
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    const ssize_t written = file < 0 ? -1 : ::write(file, bytes.data(), bytes.size());
    if (file >= 0) ::close(file);
    if (written != static_cast<ssize_t>(bytes.size()))
        throw std::system_error(errno, std::generic_category(), path);
    return path;
}

}  // namespace escalier::fuzz
