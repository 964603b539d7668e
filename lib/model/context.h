// What every layer of a stage works with: the op table, where ops run, the tensor group, and what changes by
// step.
#pragma once

#include <cstdint>
#include <span>

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

    bool gpt2() const { return config.arch == config::Arch::gpt2; }
    float eps() const { return static_cast<float>(config.norm_eps); }
};

// Set once per step, read by every action of the step.
struct StepInputs {
    TensorView tokens;                             // i32 [M,R]; without data on stages that read no tokens
    TensorView targets;                            // i32 [M,R], -1 for no target
    std::span<const std::uint64_t> first_samples;  // [M]: global ordinal of each micro-batch's first sample
    float loss_scale =
        1;  // 1 / valid targets of the global batch: the only place where a loss or gradient is scaled
    bool training = true;  // false: no dropout, no gradients
};

// Dropout after one place of the model, keyed by that place's name.
struct DropoutSite {
    std::uint64_t site = 0;
    float probability = 0;

    bool active(const StepInputs& step) const { return probability > 0 && step.training; }
    void apply(const ModelContext& context, TensorView x, TensorView bias, std::uint64_t first_sample) const {
        context.ops.dropout(context.op, x, bias, {context.seed, site, first_sample}, probability,
                            context.shape.sequence);
    }
};

}  // namespace escalier::model
