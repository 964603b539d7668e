// A checkpoint of weights alone, written by a single process: the start of a run from foreign weights.
#pragma once

#include <string>

#include "checkpoint/commit.h"
#include "checkpoint/file_layer.h"
#include "checkpoint/tensor_source.h"

namespace escalier::checkpoint {

// Writes every tensor of `weights`, as f32, into RUN/step_NNNNNNNN of facts.run.step by the steps of any
// save, and makes it the latest. Holds one tensor at a time. facts.run.optimizer is "none". Returns the
// folder. Throws IoError (write), DataError for NaN or infinity, and what reading `weights` throws.
std::string write_checkpoint(const std::string& run_directory, const TensorSource& weights,
                             const SaveFacts& facts, FileLayer& files);

}  // namespace escalier::checkpoint
