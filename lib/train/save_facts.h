// What a checkpoint says of a run beside its tensors.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/commit.h"
#include "train/assembly.h"

namespace escalier::train {

// step and consumed_samples: done so far.
checkpoint::SaveFacts save_facts(Assembly& assembly, std::int64_t step, std::int64_t consumed_samples,
                                 const std::string& dataset_fingerprint, const std::string& assets_directory);

}  // namespace escalier::train
