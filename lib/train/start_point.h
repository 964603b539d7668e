// Where a run begins: from initial weights or from a checkpoint, in a new folder or in one that is there
// already. By what lies on the disk; for one rank.
#pragma once

#include <string>
#include <vector>

#include "config/job_spec.h"

namespace escalier::train {

struct StartPoint {
    std::string checkpoint;          // its folder; empty: from initial weights
    std::string run_directory;       // a run's folder to go on in; empty: a new one
    bool own_name = false;           // a new folder is run.dir/run.name, and none with a number behind it
    std::vector<std::string> notes;  // which checkpoint and why, for the log

    // Whether the checkpoint is one of the folder that the run goes on in.
    bool from_own_folder() const;
};

// A checkpoint that was found to be damaged inside.
struct Damaged {
    std::string directory;
    std::string reason;
};

// What checkpoint.resume asks for: none, a checkpoint by its name, or auto. auto means the newest checkpoint
// in run.dir/run.name; where that folder has none yet, what the run began from, as its run.json says; else
// initial weights. own_run_first: checkpoint.resume names a checkpoint, but auto goes before it: the name is
// for a run that has no checkpoint of its own yet.
// A run goes on in its own folder: run.dir/run.name, or that with -2, -3, … behind it, whose config.yaml, if
// there is one, says the same run.name. A checkpoint from elsewhere starts a new run. Throws IoError (66)
// where what is asked for is not there, naming what is, and DataError where no checkpoint of a run is whole
// or the folder is another job's. damaged: passed over; a step that was named is refused with the reason.
StartPoint choose_start(const config::JobSpec& spec, bool own_run_first = false,
                        const std::vector<Damaged>& damaged = {});

// Whether checkpoint.resume names a step of the run itself, which is to go back to it.
bool names_own_step(const config::JobSpec& spec);

// "--resume auto", or with the folder's name where that would take another run's.
std::string resume_argument(const config::RunConfig& run, const std::string& run_directory);

}  // namespace escalier::train
