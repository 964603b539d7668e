// The folder of a sweep: one run folder per point, and beside them logs/POINT.log, what the launches of a
// point printed, and logs/POINT.json, how the last of them ended.
#pragma once

#include <optional>
#include <string>

namespace escalier::sweep {

class SweepFolder {
 public:
    explicit SweepFolder(std::string path) : path_(std::move(path)) {}

    const std::string& path() const { return path_; }
    std::string run(const std::string& point) const { return path_ + "/" + point; }
    std::string log(const std::string& point) const { return path_ + "/logs/" + point + ".log"; }
    std::string outcome(const std::string& point) const { return path_ + "/logs/" + point + ".json"; }
    std::string file(const std::string& name) const { return path_ + "/" + name; }

    // Makes it, with the folder of logs. IoError (write) naming it.
    void create() const;
    // Puts a whole file in place of the one before.
    void write(const std::string& path, const std::string& text) const;
    // Renames a point's run folder to POINT.before-N, the first that is free; returns the new path.
    std::string move_away(const std::string& point) const;

 private:
    std::string path_;
};

// Keeps other sweeps out, of a folder or of one point of it, until it goes or the process ends.
class SweepLock {
 public:
    // The whole folder: no other lock of it may be held.
    explicit SweepLock(const SweepFolder& folder);
    // One point: the elements of a job array hold one each.
    SweepLock(const SweepFolder& folder, const std::string& point);
    ~SweepLock();
    SweepLock(const SweepLock&) = delete;
    SweepLock& operator=(const SweepLock&) = delete;

 private:
    int folder_ = -1, point_ = -1;  // descriptors
};

}  // namespace escalier::sweep
