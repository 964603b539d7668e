#include "checkpoint/watched_files.h"

#include <utility>

namespace escalier::checkpoint {

class WatchedFiles::Operation {
 public:
    Operation(WatchedFiles& files, const std::string& path) : files_(files) {
        const std::lock_guard lock(files_.mutex_);
        ++files_.moves_;
        if (files_.place_ != path) files_.place_ = path;
    }
    ~Operation() {
        const std::lock_guard lock(files_.mutex_);
        ++files_.moves_;
    }
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

 private:
    WatchedFiles& files_;
};

class WatchedFiles::File : public OutputFile {
 public:
    File(WatchedFiles& files, std::string path, std::unique_ptr<OutputFile> file)
        : files_(files), path_(std::move(path)), file_(std::move(file)) {}
    ~File() override {
        const Operation closing(files_, path_);
        file_.reset();
    }
    void write(const void* data, std::size_t bytes) override {
        const Operation operation(files_, path_);
        file_->write(data, bytes);
    }
    void sync() override {
        const Operation operation(files_, path_);
        file_->sync();
    }

 private:
    WatchedFiles& files_;
    std::string path_;
    std::unique_ptr<OutputFile> file_;
};

std::uint64_t WatchedFiles::moves() const {
    const std::lock_guard lock(mutex_);
    return moves_;
}

std::string WatchedFiles::place() const {
    const std::lock_guard lock(mutex_);
    return place_;
}

std::unique_ptr<OutputFile> WatchedFiles::create(const std::string& path) {
    const Operation operation(*this, path);
    return std::make_unique<File>(*this, path, files_.create(path));
}

void WatchedFiles::make_directory(const std::string& path) {
    const Operation operation(*this, path);
    files_.make_directory(path);
}

void WatchedFiles::rename(const std::string& from, const std::string& to) {
    const Operation operation(*this, to);
    files_.rename(from, to);
}

bool WatchedFiles::exchange(const std::string& a, const std::string& b) {
    const Operation operation(*this, b);
    return files_.exchange(a, b);
}

void WatchedFiles::sync_directory(const std::string& path) {
    const Operation operation(*this, path);
    files_.sync_directory(path);
}

void WatchedFiles::remove_file(const std::string& path) {
    const Operation operation(*this, path);
    files_.remove_file(path);
}

void WatchedFiles::remove_directory(const std::string& path) {
    const Operation operation(*this, path);
    files_.remove_directory(path);
}

}  // namespace escalier::checkpoint
