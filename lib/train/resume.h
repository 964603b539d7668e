// Where a run begins: from initial weights or from a checkpoint, in a new folder or in one that is there
// already; and what of the job spec may differ from the checkpoint's.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/reader.h"
#include "checkpoint/state.h"
#include "config/job_spec.h"

namespace escalier::train {

struct StartPoint {
    std::string checkpoint;          // its folder; empty: from initial weights
    std::string run_directory;       // a run's folder to go on in; empty: a new one
    std::vector<std::string> notes;  // which checkpoint and why, for the log
};

// What checkpoint.resume asks for, by what lies on the disk; for one rank. auto looks into run.dir/run.name.
// A run goes on in its own folder, run.dir/run.name or one with -2, -3, … behind it; a checkpoint from
// elsewhere starts a new run. Throws IoError (66) where what is asked for is not there, naming what is, and
// DataError where no checkpoint of a run is whole.
// unusable: checkpoints that were found to be damaged inside.
StartPoint choose_start(const config::JobSpec& spec, const std::vector<std::string>& unusable = {});

// Whether another checkpoint may be taken where one turns out to be damaged: not where a step was named.
bool names_a_step(const config::JobSpec& spec);

// Throws DataError naming the first tensor that the checkpoint has not got, or in another shape.
void require_same_tensors(const checkpoint::CheckpointReader& reader, const checkpoint::StateList& state);

// Throws DataError, naming keys and values, if the checkpoint is of another model, optimizer or data set
// (unless data.allow_change). dataset_fingerprint: of this run. Returns a line for each key that differs and
// may.
std::vector<std::string> compare_with_checkpoint(const checkpoint::CheckpointReader& reader,
                                                 const config::JobSpec& spec,
                                                 const std::string& dataset_fingerprint);

}  // namespace escalier::train
