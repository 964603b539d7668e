#include "train/batch.h"

#include <algorithm>

namespace escalier::train {

BatchLoader::BatchLoader(const config::JobSpec& spec, int dp_rank, RankModel& model)
    : model_(model),
      layout_{spec.train.micro_batch, spec.parallel.dp},
      dp_rank_(dp_rank),
      global_batch_(spec.train.global_batch),
      micro_batches_(spec.micro_batches()),
      first_samples_(static_cast<std::size_t>(micro_batches_)) {}

void BatchLoader::load(const data::SampleReader& reader, std::int64_t consumed, bool training) {
    const TensorView tokens = model_.tokens(), targets = model_.targets();
    for (std::int64_t mb = 0; mb < micro_batches_; ++mb) {
        first_samples_[static_cast<std::size_t>(mb)] =
            static_cast<std::uint64_t>(layout_.sample(consumed, mb, dp_rank_, 0));
        if (!tokens.has_data() && !targets.has_data()) continue;
        data::read_micro_batch(reader, layout_, consumed, mb, dp_rank_,
                               tokens.has_data() ? tokens.rows(mb, 1).as<std::int32_t>() : nullptr,
                               targets.has_data() ? targets.rows(mb, 1).as<std::int32_t>() : nullptr);
    }
    valid_targets_ = reader.valid_targets(consumed, global_batch_);
    const float scale = 1.0f / static_cast<float>(std::max<std::int64_t>(1, valid_targets_));
    model_.begin_step({tokens, targets, first_samples_, scale, training});
}

}  // namespace escalier::train
