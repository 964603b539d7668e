#include "plan/stage_memory.h"

#include <algorithm>
#include <cmath>

namespace escalier::plan {

namespace {

double number(std::int64_t value) {
    return static_cast<double>(value);
}

}  // namespace

StageActivations stage_activations(const ActivationShape& shape, std::int64_t layer_count, bool first,
                                   bool last, config::Recompute recompute) {
    const config::ModelConfig& m = shape.model;
    const double tp = number(shape.tp), layers = number(layer_count);
    const double hidden = number(m.hidden_size), queries = number(m.num_heads * m.head_dim) / tp;
    const double keys = number(std::max<std::int64_t>(1, m.num_kv_heads / shape.tp) * m.head_dim);
    const double qkv = queries + 2 * keys, ffn = number(m.ffn_size) / tp;
    const double pre = m.arch == config::Arch::gpt2 ? ffn : 2 * ffn;
    const double forward = 2 * hidden + qkv + (m.qk_norm ? qkv : 0) + pre;
    const double linear_inputs = 2 * hidden + queries + ffn;
    const double gradients = qkv + 2 * hidden + pre;
    const double element = shape.dtype == "bf16" ? 2 : 4;
    const double bytes_per_channel = element * number(shape.micro_batch * shape.seq_len);
    const bool full = recompute == config::Recompute::full;
    const double again = full ? linear_inputs : recompute == config::Recompute::attention ? queries : 0;
    const double at_first = first ? hidden : 0, at_last = last ? hidden : 0;
    const double kept_outputs = std::ceil(layers / number(shape.recompute_every));
    return {bytes_per_channel * ((full ? kept_outputs * hidden : layers * forward) - hidden + at_first),
            bytes_per_channel * (layers * (linear_inputs - again) + at_last),
            bytes_per_channel * (layers * (gradients + again) + at_first)};
}

schedule::ActivationBytes activation_bytes(const config::JobSpec& spec) {
    const ActivationShape shape = {spec.model,       spec.train.micro_batch, spec.train.seq_len,
                                   spec.parallel.tp, spec.train.dtype,       spec.train.recompute_every};
    schedule::ActivationBytes bytes;
    const std::size_t stages = spec.pipeline.layers_per_stage.size();
    for (std::size_t stage = 0; stage < stages; ++stage) {
        const StageActivations one =
            stage_activations(shape, spec.pipeline.layers_per_stage[stage], stage == 0, stage + 1 == stages,
                              spec.train.recompute[stage]);
        bytes.forward.push_back(one.forward);
        bytes.linear_inputs.push_back(one.linear_inputs);
        bytes.output_gradients.push_back(one.output_gradients);
    }
    return bytes;
}

double state_bytes_per_element(const config::OptimizerConfig& optimizer, const std::string& dtype) {
    constexpr double fp32 = 4;
    const double moments = optimizer.name == "adamw" ? 2 * fp32 : 0;
    const double copy = dtype == "bf16" ? 2 : fp32;  // packed for products
    return 2 * fp32 + moments + copy;
}

double live_activations(const std::string& kind, int pp, int chunks, std::int64_t micro_batches, int rank) {
    const double all = number(micro_batches) * chunks;
    const double behind = pp - rank - 1;
    double most = all;
    // Where weight gradients come late, what they need fills the room that later ranks have over.
    if (kind == "1f1b")
        most = behind + 1;
    else if (kind == "zb-h1")
        most = pp;
    else if (kind == "zb-h2")
        most = 2.0 * pp - 1;
    else if (kind == "interleaved")
        most = 2 * behind + (chunks - 1.0) * pp + 1;
    else if (kind == "interleaved-zb")
        most = 2 * (pp - 1) + (chunks - 1.0) * pp + 1;
    else if (kind == "zbv" || kind == "dualpipev")
        most = 2.0 * pp + (kind == "dualpipev" ? 1 : 0);
    else if (kind == "dualpipe")
        most = pp + 1.0;
    else if (kind == "v-half")
        most = pp + 2.0;
    else if (kind == "v-min")
        most = 2.0 * pp / 3 + 8.0 / 3;
    const double in_flight = kind == "dualpipe" ? number(micro_batches) : all;  // each copy takes half
    return std::min(most, in_flight);
}

}  // namespace escalier::plan
