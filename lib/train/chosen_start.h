// The start of a run, chosen by rank 0 and taken by all ranks.
#pragma once

#include <memory>

#include "checkpoint/reader.h"
#include "comm/mpi_env.h"
#include "config/job_spec.h"
#include "train/run_directory.h"
#include "train/start_point.h"

namespace escalier::train {

struct ChosenStart {
    StartPoint point;                                          // its notes and own_name: on rank 0 only
    std::unique_ptr<checkpoint::CheckpointReader> checkpoint;  // its files are verified; null: none
    std::unique_ptr<RunDirectory> directory;  // the folder to go on in, held; rank 0 only, null in a dry run
};

// Collective. Rank 0 holds a folder that the run goes on in before it chooses, so that no other job saves
// there in between. own_run_first: see choose_start(). A checkpoint that proves damaged when its files are
// read is passed over for an older one, unless it was named; any other failure is thrown on all ranks alike.
ChosenStart choose_start_together(const config::JobSpec& spec, bool own_run_first, bool dry_run,
                                  comm::MpiEnv& env);

}  // namespace escalier::train
