#include "tests/harness/stopping_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"

namespace escalier::test {

namespace fs = std::filesystem;

namespace {

ino_t inode_of(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

std::string parent(const std::string& path) {
    return fs::path(path).parent_path().string();
}

}  // namespace

class StoppingFiles::File : public checkpoint::OutputFile {
 public:
    File(StoppingFiles& owner, const std::string& path)
        : owner_(owner), path_(path), file_(owner.files_.create(path)), inode_(inode_of(path)) {
        owner_.unsynced_[inode_] = 0;
    }
    void write(const void* data, std::size_t bytes) override {
        const bool whole = owner_.begin(path_, true);
        file_->write(data, whole ? bytes : bytes / 2);
        if (!whole) throw IoError::write(path_ + ": stopped in a write");
        bytes_ += static_cast<std::int64_t>(bytes);
    }
    void sync() override {
        owner_.begin(path_);
        file_->sync();
        owner_.unsynced_.erase(inode_);
    }

 private:
    StoppingFiles& owner_;
    std::string path_;
    std::unique_ptr<checkpoint::OutputFile> file_;
    ino_t inode_;
    std::int64_t bytes_ = 0;
};

bool StoppingFiles::begin(const std::string& path, bool torn) {
    ++operations_;
    if (left_ == never) return true;
    if (left_-- > 0) return true;
    stopped_ = true;
    left_ = fails_once_ ? never : 0;
    if (torn) return false;
    throw IoError::write(path + ": stopped");
}

void StoppingFiles::changed(Kind kind, const std::string& path, const std::string& other,
                            const std::string& kept) {
    const bool moved = kind == Kind::renamed || kind == Kind::exchanged;
    if (moved) follow(path, other, kind == Kind::exchanged, changes_.size());
    std::set<std::string> directories = {parent(path)};
    if (moved) directories.insert(parent(other));
    changes_.push_back({kind, path, other, kept, directories});
}

void StoppingFiles::follow(const std::string& from, const std::string& to, bool both_ways,
                           std::size_t count) {
    const auto moved = [&](const std::string& path, bool given_up = false) {
        const auto below = [&](const std::string& folder) {
            return (path == folder && !given_up) || path.starts_with(folder + "/");
        };
        if (below(from)) return to + path.substr(from.size());
        if (both_ways && below(to)) return from + path.substr(to.size());
        return path;
    };
    for (std::size_t i = 0; i < count; ++i) {
        Change& change = changes_[i];
        // A name that was given up may be another's by now.
        const bool given_up = change.kind == Kind::renamed || change.kind == Kind::removed_file ||
                              change.kind == Kind::removed_directory;
        change.path = moved(change.path, given_up);
        change.other = moved(change.other);
        std::set<std::string> directories;
        for (const std::string& directory : change.directories) directories.insert(moved(directory));
        change.directories = directories;
    }
}

void StoppingFiles::undo(const Change& change) {
    if (!fs::exists(parent(change.path))) return;  // its folder went for good
    switch (change.kind) {
        case Kind::created:
            fs::remove(change.path);
            break;
        case Kind::made_directory:
            fs::remove_all(change.path);
            return;
        case Kind::renamed:
            fs::rename(change.other, change.path);
            break;
        case Kind::exchanged:
            files_.exchange(change.path, change.other);
            return;
        case Kind::removed_file:
            break;
        case Kind::removed_directory:
            fs::create_directory(change.path);
            return;
    }
    if (!change.kept.empty())
        fs::rename(change.kept, change.kind == Kind::renamed ? change.other : change.path);
}

std::string StoppingFiles::keep(const std::string& path) {
    const std::string kept = limbo_ + "/" + std::to_string(kept_++);
    fs::create_hard_link(path, kept);
    return kept;
}

void StoppingFiles::lose(Loss loss, const std::string& root) {
    if (loss == Loss::outer_names)
        std::erase_if(changes_, [&](const Change& change) { return !change.directories.contains(root); });
    if (loss != Loss::nothing && loss != Loss::data)
        for (; !changes_.empty(); changes_.pop_back()) {
            const Change& change = changes_.back();
            undo(change);
            const bool moved = change.kind == Kind::renamed || change.kind == Kind::exchanged;
            if (moved) follow(change.other, change.path, change.kind == Kind::exchanged, changes_.size() - 1);
        }
    changes_.clear();
    if (loss == Loss::data || loss == Loss::both)
        for (const auto& entry : fs::recursive_directory_iterator(root)) {
            if (!entry.is_regular_file()) continue;
            const auto found = unsynced_.find(inode_of(entry.path().string()));
            if (found != unsynced_.end())
                fs::resize_file(entry.path(), static_cast<std::uintmax_t>(found->second));
        }
    unsynced_.clear();
    for (const auto& entry : fs::directory_iterator(limbo_)) fs::remove(entry.path());
}

std::unique_ptr<checkpoint::OutputFile> StoppingFiles::create(const std::string& path) {
    begin(path);
    std::string kept;
    if (fs::exists(path)) {
        kept = keep(path);
        fs::remove(path);
    }
    auto file = std::make_unique<File>(*this, path);
    changed(Kind::created, path, "", kept);
    return file;
}

void StoppingFiles::make_directory(const std::string& path) {
    begin(path);
    files_.make_directory(path);
    changed(Kind::made_directory, path);
}

void StoppingFiles::rename(const std::string& from, const std::string& to) {
    begin(from);
    const std::string kept = fs::is_regular_file(to) ? keep(to) : "";
    files_.rename(from, to);
    changed(Kind::renamed, from, to, kept);
}

bool StoppingFiles::exchange(const std::string& a, const std::string& b) {
    begin(a);
    if (!exchanges_ || !files_.exchange(a, b)) return false;
    changed(Kind::exchanged, a, b);
    return true;
}

void StoppingFiles::sync_directory(const std::string& path) {
    begin(path);
    for (Change& change : changes_) change.directories.erase(path);
    std::erase_if(changes_, [](const Change& change) { return change.directories.empty(); });
}

void StoppingFiles::remove_file(const std::string& path) {
    begin(path);
    const std::string kept = keep(path);
    files_.remove_file(path);
    changed(Kind::removed_file, path, "", kept);
}

void StoppingFiles::remove_directory(const std::string& path) {
    begin(path);
    files_.remove_directory(path);
    changed(Kind::removed_directory, path);
}

}  // namespace escalier::test
