#include "plan/stage_times.h"

#include <algorithm>

#include "config/model_facts.h"

namespace escalier::plan {

namespace {

struct Half {
    double input, weight;
};

// The halves of a part. Where they run as one action they sum to what that takes; what a profile leaves out
// is taken from what it has.
Half halves(const config::PartTimes& part, bool split) {
    const double sum = part.input_gradient + part.weight_gradient;
    if (sum <= 0) return {part.backward, 0};
    if (split || part.backward <= 0) return {part.input_gradient, part.weight_gradient};
    return {part.backward * part.input_gradient / sum, part.backward * part.weight_gradient / sum};
}

double again(const config::ModelTimes& times, config::Recompute recompute) {
    return recompute == config::Recompute::full        ? times.layer_again
           : recompute == config::Recompute::attention ? times.attention_again
                                                       : 0;
}

}  // namespace

StageTimes stage_times(const config::JobSpec& spec, const config::ModelTimes& times, bool split_backward) {
    const std::vector<std::int64_t>& layout = spec.pipeline.layers_per_stage;
    const std::size_t stages = layout.size();
    StageTimes out;
    out.durations = schedule::Durations::uniform(static_cast<int>(stages), 0, 0, 0, times.message);
    out.forward_exchange.resize(stages);
    out.backward_exchange.resize(stages);
    for (std::size_t stage = 0; stage < stages; ++stage) {
        const auto add = [&](const config::PartTimes& part, double count) {
            const Half half = halves(part, split_backward);
            out.durations.forward[stage] += count * part.forward;
            out.durations.input_gradient[stage] += count * half.input;
            out.durations.weight_gradient[stage] += count * half.weight;
            out.forward_exchange[stage] += count * part.forward_exchange;
            out.backward_exchange[stage] += count * part.backward_exchange;
        };
        const double layers = static_cast<double>(layout[stage]);
        const config::Recompute recompute = spec.train.recompute[stage];
        add(times.layer, layers);
        if (stage == 0) add(times.embedding, 1);
        if (stage + 1 == stages) add(times.head, 1);
        out.durations.input_gradient[stage] += layers * again(times, recompute);
        if (recompute == config::Recompute::full)
            out.backward_exchange[stage] += layers * times.layer_again_exchange;
    }
    return out;
}

double stage_seconds(const config::ModelTimes& times, std::int64_t layers, bool first, bool last,
                     config::Recompute recompute, bool split_backward) {
    const auto whole = [&](const config::PartTimes& part) {
        const Half half = halves(part, split_backward);
        return part.forward + half.input + half.weight;
    };
    return static_cast<double>(layers) * (whole(times.layer) + again(times, recompute)) +
           (first ? whole(times.embedding) : 0) + (last ? whole(times.head) : 0);
}

double stage_elements(const PartElements& parts, std::int64_t layers, bool first, bool last,
                      bool shares_table) {
    return static_cast<double>(layers) * parts.layer + (first ? parts.embedding : 0) +
           (last ? parts.head - (shares_table ? parts.table : 0) : 0);
}

PartElements part_elements(const config::ModelConfig& m, std::int64_t tp) {
    const auto number = [](std::int64_t value) { return static_cast<double>(value); };
    const bool gpt2 = m.arch == config::Arch::gpt2;
    const double hidden = number(m.hidden_size), heads = number(m.num_heads * m.head_dim) / number(tp);
    const double keys = number(std::max<std::int64_t>(1, m.num_kv_heads / tp) * m.head_dim);
    const double qkv = heads + 2 * keys, ffn = number(m.ffn_size) / number(tp), up = gpt2 ? ffn : 2 * ffn;
    PartElements e;
    e.layer = hidden * (qkv + heads + up + ffn);
    if (gpt2)
        e.layer += 4 * hidden + qkv + hidden + up + hidden;  // norms and biases
    else
        e.layer += 2 * hidden + (m.qkv_bias ? qkv : 0) + (m.qk_norm ? number(2 * m.head_dim) : 0);
    e.table = hidden * number(config::padded_vocab(m.vocab_size, tp)) / number(tp);
    e.embedding = e.table + (gpt2 ? number(m.max_positions) * hidden : 0);
    e.head = e.table + (gpt2 ? 2 : 1) * hidden;
    return e;
}

}  // namespace escalier::plan
