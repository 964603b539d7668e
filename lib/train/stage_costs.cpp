#include "train/stage_costs.h"

#include <algorithm>
#include <cmath>

#include "config/layout.h"

namespace escalier::train {

schedule::Durations predicted_durations(const config::JobSpec& spec) {
    const config::ModelCost cost = config::forward_cost(spec.model, spec.train.seq_len, spec.parallel.tp);
    const std::size_t stages = spec.pipeline.layers_per_stage.size();
    schedule::Durations durations = schedule::Durations::uniform(static_cast<int>(stages), 0, 0, 0, 0);
    for (std::size_t stage = 0; stage < stages; ++stage) {
        const double layers = static_cast<double>(spec.pipeline.layers_per_stage[stage]);
        const config::Recompute recompute = spec.train.recompute[stage];
        durations.forward[stage] = layers * cost.layer;
        durations.input_gradient[stage] = layers * cost.layer;
        durations.weight_gradient[stage] = layers * cost.layer;
        if (recompute == config::Recompute::full) durations.input_gradient[stage] += layers * cost.layer;
        if (recompute == config::Recompute::attention)
            durations.input_gradient[stage] += layers * cost.attention;
        if (stage == 0) {
            durations.forward[stage] += cost.embedding;
            durations.input_gradient[stage] += 2 * cost.embedding;
        }
        if (stage + 1 == stages) durations.forward[stage] += 3 * cost.head;
    }
    return durations;
}

schedule::ActivationBytes predicted_activation_bytes(const config::JobSpec& spec) {
    const config::ModelConfig& m = spec.model;
    const double tp = static_cast<double>(spec.parallel.tp);
    const auto width = [](std::int64_t count) { return static_cast<double>(count); };
    const double hidden = width(m.hidden_size), queries = width(m.num_heads * m.head_dim) / tp;
    const double keys = width(std::max<std::int64_t>(1, m.num_kv_heads / spec.parallel.tp) * m.head_dim);
    const double qkv = queries + 2 * keys, ffn = width(m.ffn_size) / tp;
    const double pre = m.arch == config::Arch::gpt2 ? ffn : 2 * ffn;
    const double forward = 2 * hidden + qkv + (m.qk_norm ? qkv : 0) + pre;
    const double linear_inputs = 2 * hidden + queries + ffn;
    const double gradients = qkv + 2 * hidden + pre;
    const double element = spec.train.dtype == "bf16" ? 2 : 4;
    const double bytes_per_channel = element * width(spec.train.micro_batch * spec.train.seq_len);

    schedule::ActivationBytes bytes;
    const std::size_t stages = spec.pipeline.layers_per_stage.size();
    for (std::size_t stage = 0; stage < stages; ++stage) {
        const double layers = width(spec.pipeline.layers_per_stage[stage]);
        const config::Recompute recompute = spec.train.recompute[stage];
        const bool full = recompute == config::Recompute::full;
        const double again = full ? linear_inputs : recompute == config::Recompute::attention ? queries : 0;
        const double first = stage == 0 ? hidden : 0, last = stage + 1 == stages ? hidden : 0;
        const double kept_outputs = std::ceil(layers / width(spec.train.recompute_every));
        bytes.forward.push_back(bytes_per_channel *
                                ((full ? kept_outputs * hidden : layers * forward) - hidden + first));
        bytes.linear_inputs.push_back(bytes_per_channel * (layers * (linear_inputs - again) + last));
        bytes.output_gradients.push_back(bytes_per_channel * (layers * (gradients + again) + first));
    }
    return bytes;
}

}  // namespace escalier::train
