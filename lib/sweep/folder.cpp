#include "sweep/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/error.h"

namespace escalier::sweep {

namespace fs = std::filesystem;

namespace {

int locked(const std::string& path, int kind, const std::string& what) {
    const int descriptor = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    if (descriptor < 0)
        throw IoError::write(path + " cannot be written: " + std::strerror(errno) +
                             ". Set run.dir to a folder that can be written.");
    // Some file systems know no locks; sweeps there must be kept apart by who starts them.
    if (::flock(descriptor, kind | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        ::close(descriptor);
        throw IoError::write(what +
                             " is in use by another `escalier sweep run`. Wait for its end, or give this one "
                             "another run.name.");
    }
    return descriptor;
}

}  // namespace

void SweepFolder::create() const {
    std::error_code error;
    fs::create_directories(path_ + "/logs", error);
    if (error)
        throw IoError::write("sweep folder " + path_ + " cannot be created: " + error.message() +
                             ". Set run.dir to a folder that can be written.");
}

void SweepFolder::write(const std::string& path, const std::string& text) const {
    const std::string part = path + ".part";
    std::ofstream out(part, std::ios::trunc);
    out << text << std::flush;
    if (!out) throw IoError::write(part + " cannot be written: " + std::strerror(errno));
    std::error_code error;
    fs::rename(part, path, error);
    if (error) throw IoError::write(path + " cannot be written: " + error.message());
}

std::string SweepFolder::move_away(const std::string& point) const {
    for (int number = 1;; ++number) {
        const std::string target = run(point) + ".before-" + std::to_string(number);
        if (fs::exists(target)) continue;
        std::error_code error;
        fs::rename(run(point), target, error);
        if (error) throw IoError::write(run(point) + " cannot be renamed: " + error.message());
        return target;
    }
}

SweepLock::SweepLock(const SweepFolder& folder)
    : folder_(locked(folder.file(".lock"), LOCK_EX, "sweep folder " + folder.path())) {}

SweepLock::SweepLock(const SweepFolder& folder, const std::string& point)
    : folder_(locked(folder.file(".lock"), LOCK_SH, "sweep folder " + folder.path())) {
    try {
        point_ = locked(folder.file("logs/" + point + ".lock"), LOCK_EX, "point " + folder.run(point));
    } catch (...) {
        ::close(folder_);
        throw;
    }
}

SweepLock::~SweepLock() {
    if (point_ >= 0) ::close(point_);
    if (folder_ >= 0) ::close(folder_);
}

}  // namespace escalier::sweep
