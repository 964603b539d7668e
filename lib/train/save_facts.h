// What a checkpoint says of a run beside its tensors.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/commit.h"
#include "train/assembly.h"

namespace escalier::train {

// Done so far. Samples times train.seq_len are not the tokens of a run whose sequence length was changed.
struct RunProgress {
    std::int64_t steps = 0;
    std::int64_t consumed_samples = 0;
    std::int64_t consumed_tokens = 0;
};

checkpoint::SaveFacts save_facts(Assembly& assembly, const RunProgress& progress,
                                 const std::string& dataset_fingerprint, const std::string& assets_directory);

}  // namespace escalier::train
