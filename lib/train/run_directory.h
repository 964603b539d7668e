// The folder of one run: run.dir/run.name.
#pragma once

#include <fstream>
#include <string>

#include "config/job_spec.h"

namespace escalier::train {

// Held by rank 0 alone, and by one job at a time: a lock that ends with the process keeps a second job out.
// Throws IoError (write) naming the folder and the system's reason.
class RunDirectory {
 public:
    // A new folder, whose name is durable. A fresh start where a run already lies takes NAME-2, NAME-3, …;
    // `note` then says so. own_name: not there; a run that another job began in the meantime is then no place
    // for this one.
    explicit RunDirectory(const config::RunConfig& run, bool own_name = false);
    // A run's folder to go on in. A job that is just ending gets patience_s seconds to leave it.
    explicit RunDirectory(const std::string& path, int patience_s = 10);
    ~RunDirectory();
    RunDirectory(const RunDirectory&) = delete;
    RunDirectory& operator=(const RunDirectory&) = delete;

    const std::string& path() const { return path_; }
    const std::string& note() const { return note_; }
    const std::string& warning() const { return warning_; }  // that there are no locks here; empty: there are
    // Writes a whole small file (config.yaml, run.json); the one before stays until the new one is on the
    // disk.
    void write(const std::string& name, const std::string& text) const;
    std::string file(const std::string& name) const { return path_ + "/" + name; }
    // Opens a file that the run appends lines to; an unfinished last line of a run before is cut off.
    std::ofstream append(const std::string& name) const;

 private:
    void lock(int patience_s);

    std::string path_;
    std::string note_;
    std::string warning_;
    int lock_ = -1;  // descriptor
};

// Throws IoError (write) naming the file and the system's reason if something was lost.
void require_written(const std::ofstream& out, const std::string& path);

// Refuses, before a run starts, a path at which no file can be written when it ends: IoError (write) naming
// path and reason. Missing folders are made; an existing file stays as it is.
void require_writable(const std::string& path);

}  // namespace escalier::train
