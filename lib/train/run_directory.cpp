#include "train/run_directory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "checkpoint/file_layer.h"
#include "core/error.h"
#include "core/file_lock.h"
#include "core/write_target.h"

namespace escalier::train {

namespace fs = std::filesystem;

namespace {

// What a run that died in the middle of a line left of it would spoil the first line of the next.
void cut_to_whole_lines(const std::string& path) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(path, error);
    if (error) return;  // it is not there yet
    std::ifstream in(path);
    std::uintmax_t whole = size;
    while (whole > 0 && in.seekg(static_cast<std::streamoff>(whole) - 1) && in.get() != '\n') --whole;
    if (whole < size) fs::resize_file(path, whole, error);
    if (error) throw IoError::write(path + " cannot be cut to its whole lines: " + error.message());
}

}  // namespace

RunDirectory::RunDirectory(const config::RunConfig& run, bool own_name) {
    const fs::path parent(run.dir);
    const std::string fault = "run directory " + (parent / run.name).string() + " cannot be created: ";
    checkpoint::PosixFiles files;
    try {
        checkpoint::make_directories(files, run.dir);
    } catch (const IoError& reason) {
        throw IoError::write(fault + reason.what());
    }
    std::error_code error;
    for (int number = 1; !error; ++number) {
        const std::string name = number == 1 ? run.name : run.name + "-" + std::to_string(number);
        const fs::path path = parent / name;
        if (fs::create_directory(path, error)) {
            path_ = path.string();
            files.sync_directory(run.dir);  // or a durable checkpoint in it could go with its name
            lock(0);
            if (number > 1)
                note_ =
                    "a run already lies in " + (parent / run.name).string() + "; this one goes to " + path_;
            return;
        }
        // An existing folder is no error to create_directory; an existing file is, or a link that leads
        // nowhere.
        const bool in_the_way = error == std::errc::file_exists;
        if (own_name && in_the_way)
            throw IoError::write(
                "run directory " + path.string() +
                " is no folder, but a file or a link that leads nowhere. Bring the run's folder "
                "back to go on with it; to start anew, move that away or set another run.name.");
        if (own_name && !error)
            throw IoError::write("run directory " + path.string() +
                                 " is there by now; another job has made it meanwhile. Start this one again "
                                 "to go on with its run, or give it another run.name.");
        if (in_the_way) error.clear();
    }
    throw IoError::write(fault + error.message() + ". Set run.dir to a folder that can be written.");
}

RunDirectory::RunDirectory(const std::string& path, int patience_s) : path_(path) {
    lock(patience_s);
}

RunDirectory::~RunDirectory() {
    if (lock_ >= 0) close(lock_);
}

void RunDirectory::lock(int patience_s) {
    lock_ = open(file(".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    if (lock_ < 0)
        throw IoError::write("run directory " + path_ + " cannot be written: " + std::strerror(errno) +
                             ". Set run.dir to a folder that can be written.");
    FileLock result;
    while ((result = try_lock(lock_)) == FileLock::held) {
        if (patience_s-- == 0)
            throw IoError::write("run directory " + path_ +
                                 " is in use by another job. Wait for its end, or give this one another "
                                 "run.name.");
        sleep(1);
    }
    if (result == FileLock::impossible)
        warning_ = path_ + "/.lock cannot be locked (" + std::strerror(errno) +
                   "): nothing keeps a second job out of this folder. See to it that none is started in it.";
}

void RunDirectory::write(const std::string& name, const std::string& text) const {
    const std::string part = file(name) + ".part";
    checkpoint::PosixFiles files;
    try {
        checkpoint::write_file(files, part, text);
        files.rename(part, file(name));
    } catch (const IoError& error) {
        std::error_code ignored;
        fs::remove(part, ignored);
        throw IoError::write(file(name) + " cannot be written: " + error.what());
    }
}

std::ofstream RunDirectory::append(const std::string& name) const {
    cut_to_whole_lines(file(name));
    std::ofstream out(file(name), std::ios::app);
    require_written(out, file(name));
    return out;
}

void require_writable(const std::string& path) {
    const fs::path parent = fs::path(path).parent_path();
    std::error_code error;
    if (!parent.empty()) fs::create_directories(parent, error);
    if (error)
        throw IoError::write(path + " cannot be written: folder " + parent.string() + ": " + error.message());
    std::string probe = write_target(path) + ".XXXXXX";
    const int descriptor = mkstemp(probe.data());
    if (descriptor < 0) throw IoError::write(path + " cannot be written: " + std::strerror(errno));
    close(descriptor);
    fs::remove(probe, error);
}

void require_written(const std::ofstream& out, const std::string& path) {
    if (!out) throw IoError::write(path + " cannot be written: " + std::strerror(errno));
}

}  // namespace escalier::train
