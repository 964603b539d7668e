// The disk of a machine that stops: after a set number of operations nothing more happens, and what was not
// yet durable may be lost.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/file_layer.h"

namespace escalier::test {

// What a stop leaves behind.
enum class Loss {
    nothing,      // the process was killed
    data,         // the power went: bytes that were not synced are gone
    names,        // names made, changed and removed in directories that were not synced since are as before
    outer_names,  // the same in the root alone; what happened in folders below it is durable
    both          // data and names
};

// Works on real files and remembers what is durable; names are not really synced. All operations of one save
// come from one thread at a time.
class StoppingFiles : public checkpoint::FileLayer {
 public:
    static constexpr std::int64_t never = INT64_MAX;

    // limbo: an empty folder beside the run's for what may have to come back.
    explicit StoppingFiles(const std::string& limbo) : limbo_(limbo) {}

    // The operation after so many more, and all that follow, throw IoError and do nothing; of a write half is
    // done.
    void stop_after(std::int64_t operations) { left_ = operations; }
    // The operation after so many more throws IoError (once), as a full disk does.
    void fail_after(std::int64_t operations) {
        left_ = operations;
        fails_once_ = true;
    }
    // As on file systems where no two folders change places in one step.
    void cannot_exchange() { exchanges_ = false; }
    std::int64_t operations() const { return operations_; }
    bool stopped() const { return stopped_; }

    // The disk as it is found when the machine runs again. root: all that was written lies in it.
    void lose(Loss loss, const std::string& root);

    std::unique_ptr<checkpoint::OutputFile> create(const std::string& path) override;
    void make_directory(const std::string& path) override;
    void rename(const std::string& from, const std::string& to) override;
    bool exchange(const std::string& a, const std::string& b) override;
    void sync_directory(const std::string& path) override;
    void remove_file(const std::string& path) override;
    void remove_directory(const std::string& path) override;

 private:
    class File;
    enum class Kind { created, made_directory, renamed, exchanged, removed_file, removed_directory };
    // Of names, not yet durable. Its paths follow renames of the folders they lie in.
    struct Change {
        Kind kind;
        std::string path;
        std::string other;                  // the new name, or the other half of an exchange
        std::string kept;                   // in limbo, the file that lost its name; may be empty
        std::set<std::string> directories;  // that still have to be synced
    };

    // Whether the next operation takes place; throws unless `torn` (then the caller does half of it).
    bool begin(const std::string& path, bool torn = false);
    void changed(Kind kind, const std::string& path, const std::string& other = "",
                 const std::string& kept = "");
    void undo(const Change& change);
    // Paths of the first `count` changes, after `from` was renamed to `to` (and the other way round).
    void follow(const std::string& from, const std::string& to, bool both_ways, std::size_t count);
    std::string keep(const std::string& path);  // a second name for a file that is about to lose its own

    std::string limbo_;
    checkpoint::PosixFiles files_;
    std::int64_t left_ = never;
    std::int64_t operations_ = 0;
    bool fails_once_ = false;
    bool exchanges_ = true;
    bool stopped_ = false;
    int kept_ = 0;
    std::vector<Change> changes_;
    std::map<ino_t, std::int64_t> unsynced_;  // files, and how many bytes of them are durable
};

}  // namespace escalier::test
