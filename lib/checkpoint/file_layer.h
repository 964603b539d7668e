// The disk operations of a save, one by one, so that tests can stop a save after any of them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace escalier::checkpoint {

// A new file, written from its start.
class OutputFile {
 public:
    virtual ~OutputFile() = default;  // closes; what was not synced may be lost
    virtual void write(const void* data, std::size_t bytes) = 0;
    virtual void sync() = 0;  // all of it is durable, but for its name: see sync_directory
};

// Every failure is an IoError (write) that names the file and the system's error.
class FileLayer {
 public:
    virtual ~FileLayer() = default;
    virtual std::unique_ptr<OutputFile> create(const std::string& path) = 0;  // replaces what was there
    virtual void make_directory(const std::string& path) = 0;
    virtual void rename(const std::string& from, const std::string& to) = 0;
    // Swaps two directories in one step; false where the file system cannot do that.
    virtual bool exchange(const std::string& a, const std::string& b) = 0;
    virtual void sync_directory(const std::string& path) = 0;  // the names in it are durable
    virtual void remove_file(const std::string& path) = 0;
    virtual void remove_directory(const std::string& path) = 0;  // an empty one
};

class PosixFiles : public FileLayer {
 public:
    std::unique_ptr<OutputFile> create(const std::string& path) override;
    void make_directory(const std::string& path) override;
    void rename(const std::string& from, const std::string& to) override;
    bool exchange(const std::string& a, const std::string& b) override;
    void sync_directory(const std::string& path) override;
    void remove_file(const std::string& path) override;
    void remove_directory(const std::string& path) override;
};

// A directory and those above it, as far as they are not there. Their names are durable: what is made durable
// in it later is found again.
void make_directories(FileLayer& files, const std::string& path);
// A directory with all that is in it; links are removed, not followed, `path` itself too.
void remove_tree(FileLayer& files, const std::string& path);
// Writes and syncs a small file.
void write_file(FileLayer& files, const std::string& path, const std::string& text);

}  // namespace escalier::checkpoint
