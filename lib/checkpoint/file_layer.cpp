#include "checkpoint/file_layer.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
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
                             : "Mend that or choose another folder";
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

// Collects what is written and hands it on in large aligned pieces, which go to the disk past the system's
// cache where the file system can do that: the processor copies less, and the end is no long wait.
class PosixFile : public OutputFile {
 public:
    explicit PosixFile(const std::string& path)
        : path_(path), buffer_(static_cast<char*>(std::aligned_alloc(alignment, capacity))) {
        if (!buffer_) fail(path_, "cannot be created", ENOMEM);
        descriptor_ =
            retried([&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666); });
        if (descriptor_ < 0) fail(path_, "cannot be created", errno);
    }
    ~PosixFile() override {
        if (descriptor_ >= 0) ::close(descriptor_);
    }
    PosixFile(const PosixFile&) = delete;
    PosixFile& operator=(const PosixFile&) = delete;

    void write(const void* data, std::size_t bytes) override {
        const char* position = static_cast<const char*>(data);
        while (bytes > 0) {
            const std::size_t some = std::min(bytes, capacity - filled_);
            std::memcpy(buffer_.get() + filled_, position, some);
            filled_ += some;
            position += some;
            bytes -= some;
            if (filled_ < capacity) return;
            pass_the_cache(true);
            flush();
            if (direct_ || (unsynced_ += capacity) < most_unsynced) continue;
            if (retried([&] { return ::fdatasync(descriptor_); }) < 0)
                fail(path_, "cannot be written", errno);
            unsynced_ = 0;
        }
    }

    void sync() override {
        pass_the_cache(false);  // the rest is no whole number of blocks
        flush();
        if (retried([&] { return ::fsync(descriptor_); }) < 0) fail(path_, "cannot be written", errno);
    }

 private:
    static constexpr std::size_t alignment = 4096, capacity = std::size_t{8} << 20;
    static constexpr std::size_t most_unsynced = std::size_t{256} << 20;  // in the cache, for one sync
    struct Free {
        void operator()(char* memory) const { std::free(memory); }
    };

    void pass_the_cache(bool wanted) {
        if (wanted == direct_ || (wanted && !can_be_direct_)) return;
        const int flags = ::fcntl(descriptor_, F_GETFL);
        if (::fcntl(descriptor_, F_SETFL, wanted ? flags | O_DIRECT : flags & ~O_DIRECT) < 0)
            can_be_direct_ = false;
        else
            direct_ = wanted;
    }

    void flush() {
        for (const char* position = buffer_.get(); filled_ > 0;) {
            const ssize_t written = ::write(descriptor_, position, filled_);
            if (written < 0 && errno == EINTR) continue;
            if (written < 0 && errno == EINVAL && direct_) {  // or a short write left an odd place
                pass_the_cache(false);
                can_be_direct_ = false;
                continue;
            }
            if (written <= 0) fail(path_, "cannot be written", written < 0 ? errno : ENOSPC);
            position += written;
            filled_ -= static_cast<std::size_t>(written);
        }
    }

    std::string path_;
    std::unique_ptr<char, Free> buffer_;
    std::size_t filled_ = 0;
    std::size_t unsynced_ = 0;
    int descriptor_ = -1;
    bool direct_ = false, can_be_direct_ = true;
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
    if (descriptor < 0 && errno == EACCES) return;  // it may be written but not read; there is no other way
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

void make_directories(FileLayer& files, const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code error;
    if (fs::is_directory(path, error)) return;
    fs::path directory(path);
    if (!directory.has_filename()) directory = directory.parent_path();  // a slash at the end
    const std::string above = directory.has_parent_path() ? directory.parent_path().string() : ".";
    if (above != directory) make_directories(files, above);
    try {
        files.make_directory(directory.string());
    } catch (const IoError&) {
        if (!fs::is_directory(directory, error)) throw;  // or another process made it
    }
    files.sync_directory(above);
}

void remove_tree(FileLayer& files, const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code error;
    if (fs::is_symlink(fs::symlink_status(path, error))) return files.remove_file(path);
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
