#include "train/batch.h"

#include <algorithm>

namespace escalier::train {

BatchLoader::BatchLoader(const config::JobSpec& spec, int dp_rank, RankModel& model)
    : model_(model),
      layout_{spec.train.micro_batch, spec.parallel.dp},
      dp_rank_(dp_rank),
      global_batch_(spec.train.global_batch),
      micro_batches_(spec.micro_batches()) {}

void BatchLoader::load(const data::SampleReader& reader, std::int64_t consumed, bool training) {
    const RankModel::StepMirrors& mirrors = model_.step_mirrors();
    const TensorView tokens = mirrors.tokens.host, targets = mirrors.targets.host;
    for (std::int64_t mb = 0; mb < micro_batches_; ++mb) {
        mirrors.first_samples.host.as<std::uint64_t>()[mb] =
            static_cast<std::uint64_t>(layout_.sample(consumed, mb, dp_rank_, 0));
        if (!tokens.has_data() && !targets.has_data()) continue;
        data::read_micro_batch(reader, layout_, consumed, mb, dp_rank_,
                               tokens.has_data() ? tokens.rows(mb, 1).as<std::int32_t>() : nullptr,
                               targets.has_data() ? targets.rows(mb, 1).as<std::int32_t>() : nullptr);
    }
    valid_targets_ = reader.valid_targets(consumed, global_batch_);
    if (mirrors.loss_scale.host.has_data())
        *mirrors.loss_scale.host.as<float>() =
            1.0f / static_cast<float>(std::max<std::int64_t>(1, valid_targets_));
    model_.begin_step(training);
}

}  // namespace escalier::train
