#include "train/run_directory.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "core/error.h"

namespace escalier::train {

namespace fs = std::filesystem;

RunDirectory::RunDirectory(const config::RunConfig& run) {
    const fs::path parent(run.dir);
    std::error_code error;
    fs::create_directories(parent, error);
    for (int number = 1; !error; ++number) {
        const std::string name = number == 1 ? run.name : run.name + "-" + std::to_string(number);
        const fs::path path = parent / name;
        if (fs::create_directory(path, error)) {
            path_ = path.string();
            if (number > 1)
                note_ =
                    "a run already lies in " + (parent / run.name).string() + "; this one goes to " + path_;
            return;
        }
        // An existing folder is no error to create_directory; an existing file is.
        if (error == std::errc::file_exists) error.clear();
    }
    throw IoError::write("run directory " + (parent / run.name).string() + " cannot be created: " +
                         error.message() + ". Set run.dir to a folder that can be written.");
}

void RunDirectory::write(const std::string& name, const std::string& text) const {
    const std::string path = path_ + "/" + name;
    std::ofstream out(path, std::ios::trunc);
    out << text << std::flush;
    if (!out) throw IoError::write(path + " cannot be written: " + std::strerror(errno));
}

std::ofstream RunDirectory::append(const std::string& name) const {
    const std::string path = path_ + "/" + name;
    std::ofstream out(path, std::ios::app);
    if (!out) throw IoError::write(path + " cannot be opened for writing: " + std::strerror(errno));
    return out;
}

void require_writable(const std::string& path) {
    const fs::path parent = fs::path(path).parent_path();
    std::error_code error;
    if (!parent.empty()) fs::create_directories(parent, error);
    if (error)
        throw IoError::write(path + " cannot be written: folder " + parent.string() + ": " + error.message());
    if (fs::is_directory(path, error)) throw IoError::write(path + " cannot be written: it is a folder");
    const std::string probe = path + ".probe";
    std::ofstream out(probe);
    if (!out) throw IoError::write(path + " cannot be written: " + std::strerror(errno));
    out.close();
    fs::remove(probe, error);
}

}  // namespace escalier::train
