// The folder of one run: run.dir/run.name.
#pragma once

#include <fstream>
#include <string>

#include "config/job_spec.h"

namespace escalier::train {

// Creates the folder, by rank 0 alone. A fresh start where a run already lies takes NAME-2, NAME-3, …; `note`
// then says so. Throws IoError (write) naming the folder and the system's reason.
class RunDirectory {
 public:
    explicit RunDirectory(const config::RunConfig& run);

    const std::string& path() const { return path_; }
    const std::string& note() const { return note_; }
    // Writes a whole small file (config.yaml, run.json).
    void write(const std::string& name, const std::string& text) const;
    std::string file(const std::string& name) const { return path_ + "/" + name; }
    // Opens a file that the run appends lines to.
    std::ofstream append(const std::string& name) const;

 private:
    std::string path_;
    std::string note_;
};

// Throws IoError (write) naming the file and the system's reason if something was lost.
void require_written(const std::ofstream& out, const std::string& path);

// Refuses, before a run starts, a path at which no file can be written when it ends: IoError (write) naming
// path and reason. Missing folders are made; an existing file stays as it is.
void require_writable(const std::string& path);

}  // namespace escalier::train
