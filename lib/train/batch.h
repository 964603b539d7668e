// One global batch as this rank's stages read it.
#pragma once

#include <cstdint>

#include "data/sampler.h"
#include "train/rank_model.h"

namespace escalier::train {

class BatchLoader {
 public:
    BatchLoader(const config::JobSpec& spec, int dp_rank, RankModel& model);

    // Reads the samples that follow `consumed` and hands them to the stages. Throws DataError.
    void load(const data::SampleReader& reader, std::int64_t consumed, bool training);
    // Targets of the whole global batch that count; of the last load.
    std::int64_t valid_targets() const { return valid_targets_; }

 private:
    RankModel& model_;
    data::BatchLayout layout_;
    int dp_rank_;
    std::int64_t global_batch_, micro_batches_;
    std::int64_t valid_targets_ = 0;
};

}  // namespace escalier::train
