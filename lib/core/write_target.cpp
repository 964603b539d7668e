#include "core/write_target.h"

#include <sys/stat.h>

#include <filesystem>
#include <system_error>

#include "core/error.h"

namespace escalier {

std::string write_target(const std::string& path) {
    namespace fs = std::filesystem;
    constexpr int most_links = 40;  // as the kernel has it
    const auto refuse = [&](const std::string& why) {
        throw IoError::write(path + ": " + why + ". Choose another path.");
    };
    if (path.empty()) refuse("the empty path names no file");
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
        refuse("is a folder, pipe, socket or device and cannot be replaced by a file");
    fs::path target = path;
    std::error_code no_link;
    for (int links = 0; links <= most_links; ++links) {
        const fs::path next = fs::read_symlink(target, no_link);
        if (no_link) return target.string();
        target = target.parent_path() / next;  // an absolute `next` stands alone
    }
    refuse("is a link that leads back to itself");
    return {};
}

}  // namespace escalier
