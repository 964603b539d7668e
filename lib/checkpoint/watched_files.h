// A file layer that says what it is at, so that another thread sees whether it gets on.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "checkpoint/file_layer.h"

namespace escalier::checkpoint {

class WatchedFiles : public FileLayer {
 public:
    explicit WatchedFiles(FileLayer& files) : files_(files) {}

    std::uint64_t moves() const;  // operations begun and ended so far; a write's pieces count one by one
    std::string place() const;    // the file or folder of the last one begun

    std::unique_ptr<OutputFile> create(const std::string& path) override;
    void make_directory(const std::string& path) override;
    void rename(const std::string& from, const std::string& to) override;
    bool exchange(const std::string& a, const std::string& b) override;
    void sync_directory(const std::string& path) override;
    void remove_file(const std::string& path) override;
    void remove_directory(const std::string& path) override;

 private:
    class Operation;
    class File;

    FileLayer& files_;
    mutable std::mutex mutex_;
    std::uint64_t moves_ = 0;
    std::string place_;
};

}  // namespace escalier::checkpoint
