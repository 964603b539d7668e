// Faults as developers of such systems really make them, none of which the rules were written for: a bias
// that every tensor rank adds, a message buffer sent too late, a tied table that loses its first micro-batch,
// a clip coefficient of one stage.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "tests/multirank/verify/other_ops.h"
#include "tests/multirank/verify/verified_job.h"

namespace escalier::train {
namespace {

using Overrides = std::vector<std::string>;

const Overrides one = {}, pp2 = {"parallel.pp=2"}, tp2pp2 = {"parallel.tp=2", "parallel.pp=2"};
const Overrides dp2pp2 = {"parallel.dp=2", "parallel.pp=2"};

void expect_found(const VerifyResult& result, std::int64_t step, const std::string& first,
                  const std::string& cause, const std::string& text) {
    expect_found(result, cause, text);
    EXPECT_EQ(result.step, step);
    EXPECT_NE(result.first.find(first), std::string::npos) << result.first;
}

// ---- forward ----

// As if the bias went into the product of every tensor rank, before the sum.
std::vector<float> doubled(TensorView bias) {
    std::vector<float> out(bias.as<float>(), bias.as<float>() + bias.elements());
    for (float& value : out) value *= 2;
    return out;
}

TEST(VerifyForeignFaults, EveryTensorRankAddsTheBias) {
    OtherOps ops;
    ops.residual_layernorm_forward = [](const OpContext& c, TensorView sum, TensorView y, TensorView mean,
                                        TensorView rstd, TensorView residual, TensorView delta,
                                        TensorView delta_bias, TensorView weight, TensorView bias,
                                        float eps) {
        std::vector<float> more = doubled(delta_bias);
        kernels::cpu_ops().residual_layernorm_forward(c, sum, y, mean, rstd, residual, delta,
                                                      TensorView(more.data(), DType::f32, delta_bias.shape()),
                                                      weight, bias, eps);
    };
    // Biases start at zero: the first step cannot show it.
    expect_found(with_ops(gpt2, one, tp2pp2, ops), 2, "loss", "bias in forward",
                 "the attention of layer 0 every position of every sample is off by the same vector");
    OtherOps mlp;
    mlp.residual_add = [](const OpContext& c, TensorView sum, TensorView residual, TensorView delta,
                          TensorView delta_bias) {
        std::vector<float> more = doubled(delta_bias);
        kernels::cpu_ops().residual_add(c, sum, residual, delta,
                                        TensorView(more.data(), DType::f32, delta_bias.shape()));
    };
    expect_found(with_ops(gpt2, one, tp2pp2, mlp), 2, "loss", "bias in forward", "the mlp of layer 0");
}

// Targets one position further on, as from a batch that was shifted twice.
std::vector<std::int32_t> shifted(TensorView targets) {
    std::vector<std::int32_t> out(targets.as<std::int32_t>() + 1,
                                  targets.as<std::int32_t>() + targets.elements());
    out.push_back(targets.as<std::int32_t>()[0]);
    return out;
}

TEST(VerifyForeignFaults, TargetsAreShiftedTwice) {
    OtherOps ops;
    ops.cross_entropy_statistics = [](const OpContext& c, TensorView statistics, TensorView logits,
                                      TensorView targets, std::int64_t begin, std::int64_t valid) {
        std::vector<std::int32_t> other = shifted(targets);
        kernels::cpu_ops().cross_entropy_statistics(
            c, statistics, logits, TensorView(other.data(), DType::i32, targets.shape()), begin, valid);
    };
    ops.cross_entropy_finish = [](const OpContext& c, TensorView losses, TensorView logits,
                                  TensorView statistics, TensorView targets, std::int64_t begin,
                                  std::int64_t valid, const float* scale, bool gradient) {
        std::vector<std::int32_t> other = shifted(targets);
        kernels::cpu_ops().cross_entropy_finish(c, losses, logits, statistics,
                                                TensorView(other.data(), DType::i32, targets.shape()), begin,
                                                valid, scale, gradient);
    };
    expect_found(with_ops(llama, one, tp2pp2, ops), 1, "loss", "targets", "lm_head.weight");
    expect_found(with_ops(tied_gpt2, one, pp2, ops), 1, "loss", "targets", "wte.weight");
}

// ---- messages ----

// Changes what a stage receives before the stage or anybody else looks at it.
class ReceivingStage final : public model::Stage {
 public:
    using Change = std::function<void(TensorView received, schedule::ActionKind kind)>;
    ReceivingStage(model::Stage& inner, Change change) : inner_(inner), change_(std::move(change)) {}
    std::span<const model::Segment> segments(schedule::ActionKind kind) const override {
        return inner_.segments(kind);
    }
    void run(int segment, const model::StageIo& io) override {
        const schedule::ActionKind kind = io.action.kind;
        if (segment == 0 && kind == schedule::ActionKind::F && io.input.has_data()) change_(io.input, kind);
        if (segment == 0 && kind == schedule::ActionKind::B && io.output_gradient.has_data())
            change_(io.output_gradient, kind);
        inner_.run(segment, io);
    }

 private:
    model::Stage& inner_;
    Change change_;
};

AssemblyHooks receiving(const std::function<ReceivingStage::Change()>& make) {
    AssemblyHooks hooks;
    hooks.boundaries.push_back([=](const model::StageModel&, model::Stage& inner) {
        return std::make_unique<ReceivingStage>(inner, make());
    });
    return hooks;
}

// The buffer of the last message is sent once more: every micro-batch but the first gets the one before.
TEST(VerifyForeignFaults, GradientsLeaveOneMicroBatchLate) {
    const AssemblyHooks hooks = receiving([]() -> ReceivingStage::Change {
        return [kept = std::vector<float>()](TensorView x, schedule::ActionKind kind) mutable {
            if (kind != schedule::ActionKind::B) return;
            std::vector<float> own(x.as<float>(), x.as<float>() + x.elements());
            if (!kept.empty()) std::copy(kept.begin(), kept.end(), x.as<float>());
            kept = own;
        };
    });
    const std::string text =
        "What stage 0 of B received as the gradient of the residual stream behind layer 1 "
        "is not what stage 1 sent: sample ";
    expect_found(verify_grids(gpt2, one, tp2pp2, hooks), 1, "h.1.", "message between stages",
                 text + "1 has that of sample 0 (7 of 8");
    expect_found(verify_grids(llama, one, dp2pp2, hooks), 1, "layers.1.", "message between stages",
                 text + "2 has that of sample 0 (6 of 8");
}

TEST(VerifyForeignFaults, ActivationsAreSentInBf16) {
    const AssemblyHooks hooks = receiving([]() -> ReceivingStage::Change {
        return [](TensorView x, schedule::ActionKind kind) {
            if (kind != schedule::ActionKind::F) return;
            for (std::int64_t i = 0; i < x.elements(); ++i) {
                std::uint32_t bits = 0;
                std::memcpy(&bits, x.as<float>() + i, sizeof bits);
                bits = (bits + 0x8000u) & 0xffff0000u;
                std::memcpy(x.as<float>() + i, &bits, sizeof bits);
            }
        };
    });
    expect_found(
        verify_grids(gpt2, one, pp2, hooks), 1, "loss", "message between stages",
        "stage 1 of B received as the residual stream behind layer 1 is not what stage 0 sent: it lies "
        "as far away as rounding to bf16");
    expect_found(verify_grids(llama, one, tp2pp2, hooks), 1, "gradient of", "message between stages",
                 "rounding to bf16");
}

// ---- backward ----

// The embedding's second micro-batch overwrites the first, for the head has begun the table's gradient.
TEST(VerifyForeignFaults, TheTiedTableLosesTheEmbeddingsFirstMicroBatch) {
    static bool first;
    OtherOps ops;
    ops.embedding_backward = [](const OpContext& c, TensorView dtable, TensorView tokens, TensorView dout,
                                std::int64_t begin, kernels::Accumulate accumulate) {
        const bool second = first && accumulate == kernels::Accumulate::add;
        first = accumulate == kernels::Accumulate::overwrite;
        kernels::cpu_ops().embedding_backward(c, dtable, tokens, dout, begin,
                                              second ? kernels::Accumulate::overwrite : accumulate);
    };
    expect_found(with_ops(tied_gpt2, one, tp2pp2, ops), 1, "gradient of transformer.wte.weight",
                 "missing samples", "the rows of the ids that stand in micro-batch 0 of 8");
    expect_found(with_ops(llama, one, pp2, ops), 1, "gradient of model.embed_tokens.weight",
                 "missing samples", "micro-batch 0 of 8");
}

// Weight gradients that are made later find the inputs of another micro-batch.
TEST(VerifyForeignFaults, DeferredWeightGradientsReadTheLastMicroBatchsInputs) {
    static std::map<const void*, std::vector<float>> kept;
    kept.clear();
    OtherOps ops;
    ops.linear_backward_weight = [](const OpContext& c, TensorView dweight, TensorView dbias, TensorView dy,
                                    TensorView x, kernels::Accumulate accumulate) {
        std::vector<float>& last = kept[dweight.data()];
        std::vector<float> own(x.as<float>(), x.as<float>() + x.elements());
        if (last.size() != own.size()) last = own;
        kernels::cpu_ops().linear_backward_weight(c, dweight, dbias, dy,
                                                  TensorView(last.data(), DType::f32, x.shape()), accumulate);
        last = own;
    };
    Overrides split = tp2pp2;
    split.push_back("pipeline.schedule=zb-h1");
    expect_found(with_ops(gpt2, one, split, ops), 1, "gradient of", "weight gradient",
                 "the inputs that are kept for it");
}

// ---- update ----

// What all matrices and vectors of one stage have for a norm; with tp = 1 that is a rank's.
TEST(VerifyForeignFaults, EachStageClipsByItsOwnNorm) {
    OtherOps ops;
    ops.adamw_step = [](const OpContext& c, std::span<const kernels::OptimizerTensor> tensors,
                        const kernels::AdamwParameters& parameters) {
        double squares = 0;
        for (const kernels::OptimizerTensor& tensor : tensors)
            for (std::int64_t i = 0; i < tensor.gradient.elements(); ++i)
                squares += std::pow(tensor.gradient.as<float>()[i], 2);
        kernels::AdamwParameters own = parameters;
        own.gradient_scale = static_cast<float>(std::min(1.0, 0.25 / std::sqrt(squares)));
        kernels::cpu_ops().adamw_step(c, tensors, own);
    };
    const Overrides clip = {"optimizer.clip_grad=0.25"};
    for (const Overrides& grid : {pp2, Overrides{"parallel.pp=4"}}) {
        Overrides clipped = grid;
        clipped.push_back(clip[0]);
        expect_found(with_ops(gpt2, clip, clipped, ops), 1, "first moment of", "clipping",
                     "as if each stage clipped by the norm of its own gradients");
    }
}

TEST(VerifyForeignFaults, BiasCorrectionCountsMicroBatches) {
    OtherOps ops;
    ops.adamw_step = [](const OpContext& c, std::span<const kernels::OptimizerTensor> tensors,
                        const kernels::AdamwParameters& parameters) {
        kernels::AdamwParameters other = parameters;
        other.step *= 8;
        kernels::cpu_ops().adamw_step(c, tensors, other);
    };
    expect_found(with_ops(llama, one, tp2pp2, ops), 1, "weight of", "size of the update",
                 "number of the step");
}

// The rank shares no group with the one whose copies its own are held against.
TEST(VerifyForeignFaults, OneRankOfFourMovesVectorsTwiceAsFar) {
    OtherOps ops;
    ops.adamw_step = [](const OpContext& c, std::span<const kernels::OptimizerTensor> tensors,
                        const kernels::AdamwParameters& parameters) {
        kernels::AdamwParameters other = parameters;
        if (op_place().tp_rank > 0 && op_place().dp_rank > 0) other.lr *= 2;
        for (const kernels::OptimizerTensor& tensor : tensors)
            kernels::cpu_ops().adamw_step(c, {&tensor, 1},
                                          tensor.weight.shape().rank() == 1 ? other : parameters);
    };
    expect_found(with_ops(llama, one, {"parallel.tp=2", "parallel.dp=2"}, ops), 1, "weight of",
                 "copies updated differently", "on the tensor ranks of B");
}

}  // namespace
}  // namespace escalier::train
