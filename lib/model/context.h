// What every layer of a stage works with: the op table, where ops run, the tensor group, and what changes by
// step.
#pragma once

#include <cstdint>

#include "comm/communicator.h"
#include "config/job_spec.h"
#include "core/op_context.h"
#include "core/rng.h"
#include "kernels/ops.h"
#include "model/shape.h"

namespace escalier::model {

struct ModelContext {
    const kernels::Ops& ops;
    OpContext op;
    comm::Communicator& tp;
    config::ModelConfig config;
    ModelShape shape;
    std::uint64_t seed = 0;
    DType storage = DType::f32;  // of activations
    // The loss head works on as many rows at once as have so many bytes of logits. Every piece reads and
    // writes the head's whole main gradient, so few are best where caches are small beside them.
    std::int64_t logits_bytes = default_logits_bytes;
    static constexpr std::int64_t default_logits_bytes = std::int64_t{104}
                                                         << 20;  // 512 rows of GPT-2's vocabulary

    bool gpt2() const { return config.arch == config::Arch::gpt2; }
    float eps() const { return static_cast<float>(config.norm_eps); }
};

// Set once per step, read by every action of the step; in memory of the backend, without data on stages that
// do not use them.
struct StepInputs {
    TensorView tokens;         // i32 [M,R]
    TensorView targets;        // i32 [M,R], -1 for no target
    TensorView first_samples;  // u64 [M]: global ordinal of each micro-batch's first sample
    TensorView loss_scale;  // f32 [1]: 1 / valid targets of the global batch, the only place where a loss or
                            // gradient is scaled
    TensorView losses;      // f64 [M]: the last stage puts the sum of each micro-batch's token losses here
    bool training = true;   // false: no dropout, no gradients
    bool loss_wanted = true;  // false: the head stops behind its norm, which row_logits() goes on from; not
                              // when training
};

// Dropout after one place of the model, keyed by that place's name.
struct DropoutSite {
    std::uint64_t site = 0;
    float probability = 0;

    bool active(const StepInputs& step) const { return probability > 0 && step.training; }
    // first_sample: u64 [1].
    void apply(const ModelContext& context, TensorView x, TensorView bias, TensorView first_sample) const {
        context.ops.dropout(context.op, x, bias, {context.seed, site, first_sample.as<std::uint64_t>()},
                            probability, context.shape.sequence);
    }
};

}  // namespace escalier::model
