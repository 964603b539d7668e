#include "checkpoint/file_layer.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.h"

namespace escalier::checkpoint {

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& what, int error) {
    const char* advice = error == ENOSPC || error == EDQUOT || error == EFBIG
                             ? "Free space or raise the limit"
                             : "Mend that or choose another run.dir";
    throw IoError::write(path + ": " + what + ": " + std::strerror(error) + ". " + advice +
                         "; earlier checkpoints are untouched.");
}

// Until it is not interrupted.
template <class Call>
int retried(Call&& call) {
    int result;
    do result = call();
    while (result < 0 && errno == EINTR);
    return result;
}

class PosixFile : public OutputFile {
 public:
    explicit PosixFile(const std::string& path) : path_(path) {
        descriptor_ =
            retried([&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666); });
        if (descriptor_ < 0) fail(path_, "cannot be created", errno);
    }
    ~PosixFile() override { ::close(descriptor_); }
    PosixFile(const PosixFile&) = delete;
    PosixFile& operator=(const PosixFile&) = delete;

    void write(const void* data, std::size_t bytes) override {
        const char* position = static_cast<const char*>(data);
        while (bytes > 0) {
            const ssize_t written = ::write(descriptor_, position, bytes);
            if (written < 0 && errno == EINTR) continue;
            if (written < 0) fail(path_, "cannot be written", errno);
            if (written == 0) fail(path_, "cannot be written", ENOSPC);
            position += written;
            bytes -= static_cast<std::size_t>(written);
            end_ += written;
        }
    }

    void keep_pace() override {
        // Advice alone: a failure shows in sync().
        if (begun_ > waited_)
            ::sync_file_range(
                descriptor_, waited_, begun_ - waited_,
                SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
        waited_ = begun_;
        ::sync_file_range(descriptor_, begun_, end_ - begun_, SYNC_FILE_RANGE_WRITE);
        begun_ = end_;
    }

    void sync() override {
        if (retried([&] { return ::fsync(descriptor_); }) < 0) fail(path_, "cannot be written", errno);
    }

 private:
    std::string path_;
    int descriptor_ = -1;
    off_t waited_ = 0, begun_ = 0, end_ = 0;  // bytes: on their way and arrived, on their way, written
};

}  // namespace

std::unique_ptr<OutputFile> PosixFiles::create(const std::string& path) {
    return std::make_unique<PosixFile>(path);
}

void PosixFiles::make_directory(const std::string& path) {
    if (::mkdir(path.c_str(), 0777) < 0) fail(path, "cannot be made", errno);
}

void PosixFiles::rename(const std::string& from, const std::string& to) {
    if (::rename(from.c_str(), to.c_str()) < 0) fail(from, "cannot be renamed to " + to, errno);
}

bool PosixFiles::exchange(const std::string& a, const std::string& b) {
    if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
    if (errno == EINVAL || errno == ENOSYS) return false;
    fail(a, "cannot change places with " + b, errno);
}

void PosixFiles::sync_directory(const std::string& path) {
    const int descriptor = retried([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    if (descriptor < 0) fail(path, "cannot be opened", errno);
    const int result = retried([&] { return ::fsync(descriptor); });
    const int error = errno;
    ::close(descriptor);
    // Some file systems cannot sync a directory, and need not.
    if (result < 0 && error != EINVAL) fail(path, "cannot be written", error);
}

void PosixFiles::remove_file(const std::string& path) {
    if (::unlink(path.c_str()) < 0) fail(path, "cannot be removed", errno);
}

void PosixFiles::remove_directory(const std::string& path) {
    if (::rmdir(path.c_str()) < 0) fail(path, "cannot be removed", errno);
}

void remove_tree(FileLayer& files, const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code error;
    std::vector<std::pair<std::string, bool>> entries;  // removed only once the listing is closed
    for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error))
        entries.emplace_back(at->path().string(), fs::is_directory(at->symlink_status()));
    if (error) fail(path, "cannot be listed", error.value());
    std::sort(entries.begin(), entries.end());
    for (const auto& [entry, is_directory] : entries)
        if (is_directory)
            remove_tree(files, entry);
        else
            files.remove_file(entry);
    files.remove_directory(path);
}

void write_file(FileLayer& files, const std::string& path, const std::string& text) {
    const std::unique_ptr<OutputFile> file = files.create(path);
    file->write(text.data(), text.size());
    file->sync();
}

}  // namespace escalier::checkpoint
