// What of a run may differ from the checkpoint that it goes on from.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/reader.h"
#include "checkpoint/state.h"
#include "config/job_spec.h"

namespace escalier::train {

// Throws DataError naming the first tensor that the checkpoint has not got, or in another shape.
void require_same_tensors(const checkpoint::CheckpointReader& reader, const checkpoint::StateList& state);

// Throws DataError, naming keys and values, if the checkpoint is of another model, optimizer or data set
// (unless data.allow_change), or if the samples of this run end before its steps do. dataset_fingerprint: of
// this run. Returns a line for each key that differs and may.
std::vector<std::string> compare_with_checkpoint(const checkpoint::CheckpointReader& reader,
                                                 const config::JobSpec& spec,
                                                 const std::string& dataset_fingerprint);

}  // namespace escalier::train
