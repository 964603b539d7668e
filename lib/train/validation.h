// The loss of the validation set.
#pragma once

#include <cstdint>
#include <string>

#include "data/sampler.h"
#include "train/train_step.h"

namespace escalier::train {

struct Validation {
    double loss = 0;  // mean over the valid targets
    std::int64_t targets = 0;
    double seconds = 0;
    // Where the loss is not finite: the samples [first, last] of the first batch of which it is not.
    std::int64_t first = 0, last = -1;

    std::string fault(std::int64_t step) const;  // of a loss that is not finite, for the user
};

// Collective over the job; the loss is the same on every rank.
Validation validate(TrainStep& step, const data::EvalSet& samples, std::int64_t global_batch);

}  // namespace escalier::train
