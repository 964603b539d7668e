// Planted faults of ops, parameters and stages: each is found, and named by what its tensors show.
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/multirank/verify/other_ops.h"
#include "tests/multirank/verify/verified_job.h"

namespace escalier::train {
namespace {

using Overrides = std::vector<std::string>;

const Overrides one = {}, tp2 = {"parallel.tp=2"}, pp2 = {"parallel.pp=2"}, pp4 = {"parallel.pp=4"};
const Overrides dp2 = {"parallel.dp=2"}, tp2pp2 = {"parallel.tp=2", "parallel.pp=2"};

constexpr std::int64_t micro_batches = 8;

VerifyResult with_parameters(const std::string& model, const Overrides& a, const Overrides& b,
                             const std::function<void(model::Parameter&)>& change) {
    AssemblyHooks hooks;
    hooks.parameters = [=](model::ParameterList& list) {
        for (model::Parameter& parameter : list) change(parameter);
    };
    return verify_grids(model, a, b, hooks);
}

// ---- forward ----

TEST(VerifyOps, PositionsAreReadOneFurther) {
    OtherOps ops;
    ops.position_forward = [](const OpContext& c, TensorView x, TensorView positions, std::int64_t sequence) {
        kernels::cpu_ops().position_forward(c, x, positions.rows(1, positions.extent(0) - 1), sequence);
    };
    const std::string model = gpt2 + ", max_positions: 32";
    expect_found(with_ops(model, one, pp2, ops), "position offset", "same position");
    expect_found(with_ops(model, one, tp2, ops), "position offset", "same position");
}

TEST(VerifyOps, AShardOfTheVocabularyIsReadOneRowOff) {
    OtherOps ops;
    ops.embedding_forward = [](const OpContext& c, TensorView out, TensorView tokens, TensorView table,
                               std::int64_t begin) {
        kernels::cpu_ops().embedding_forward(c, out, tokens, table, begin + (op_place().tp_rank > 0));
    };
    expect_found(with_ops(gpt2, one, tp2, ops), "vocabulary shard offset",
                 "to 199 are wrong and others right");
    expect_found(with_ops(llama, one, tp2pp2, ops), "vocabulary shard offset",
                 "to 199 are wrong and others right");
}

TEST(VerifyOps, GradientsOfAVocabularyShardGoOneRowOff) {
    OtherOps ops;
    ops.embedding_backward = [](const OpContext& c, TensorView dtable, TensorView tokens, TensorView dout,
                                std::int64_t begin, kernels::Accumulate accumulate) {
        kernels::cpu_ops().embedding_backward(c, dtable, tokens, dout, begin - (op_place().tp_rank > 0),
                                              accumulate);
    };
    expect_found(with_ops(gpt2, one, tp2, ops), "vocabulary shard offset", "wrong offset of the shard");
}

TEST(VerifyOps, EveryTensorRankDrawsAnotherDropoutMask) {
    OtherOps ops;
    ops.dropout = [](const OpContext& c, TensorView x, TensorView bias, const kernels::DropoutKey& key,
                     float p, std::int64_t sequence) {
        kernels::DropoutKey own = key;
        own.seed += static_cast<std::uint64_t>(op_place().tp_rank);
        kernels::cpu_ops().dropout(c, x, bias, own, p, sequence);
    };
    expect_found(with_ops(tied_gpt2 + ", dropout: 0.1", one, tp2, ops), "other dropout mask",
                 "mask of its own");
}

TEST(VerifyOps, DropoutMasksDependOnThePlaceInThePipeline) {
    OtherOps ops;
    ops.dropout = [](const OpContext& c, TensorView x, TensorView bias, const kernels::DropoutKey& key,
                     float p, std::int64_t sequence) {
        kernels::DropoutKey own = key;
        own.site += static_cast<std::uint64_t>(op_place().pp_rank);
        kernels::cpu_ops().dropout(c, x, bias, own, p, sequence);
    };
    expect_found(with_ops(tied_gpt2 + ", dropout: 0.1", one, pp2, ops), "other dropout mask", "layer 2");
    ops.dropout = [](const OpContext& c, TensorView x, TensorView bias, const kernels::DropoutKey& key,
                     float p, std::int64_t sequence) {
        kernels::DropoutKey own = key;
        own.seed += static_cast<std::uint64_t>(op_place().dp_rank);
        kernels::cpu_ops().dropout(c, x, bias, own, p, sequence);
    };
    expect_found(with_ops(tied_gpt2 + ", dropout: 0.1", one, dp2, ops), "other dropout mask", "dp rank 1");
}

TEST(VerifyOps, AttentionSeesLaterPositions) {
    OtherOps ops;
    ops.attention_forward = [](const OpContext& c, TensorView out, TensorView lse, TensorView qkv,
                               std::int64_t b, std::int64_t t, std::int64_t heads, std::int64_t kv_heads) {
        std::vector<float> kept(qkv.as<float>(), qkv.as<float>() + qkv.elements());
        const std::int64_t width = qkv.extent(1);
        const std::int64_t queries = heads * (width / (heads + 2 * kv_heads));
        for (std::int64_t row = 0; row < qkv.extent(0); ++row)  // another scale of the scores
            for (std::int64_t i = 0; i < queries; ++i) qkv.as<float>()[row * width + i] *= 1.5f;
        kernels::cpu_ops().attention_forward(c, out, lse, qkv, b, t, heads, kv_heads);
        std::copy(kept.begin(), kept.end(), qkv.as<float>());
    };
    expect_found(with_ops(llama, one, pp2, ops), "attention positions", "attention of layer 0");
}

TEST(VerifyOps, OnlyTheReportedLossIsWrong) {
    OtherOps ops;
    ops.sum_losses = [](const OpContext& c, TensorView sum, TensorView losses,
                        kernels::Accumulate accumulate) {
        kernels::cpu_ops().sum_losses(c, sum, losses, accumulate);
        *sum.as<double>() /= static_cast<double>(micro_batches);
    };
    expect_found(with_ops(gpt2, one, pp2, ops), "reported loss", "1/8");
}

// A stage that takes other micro-batches than it is told.
class ReorderedStage final : public model::Stage {
 public:
    explicit ReorderedStage(model::Stage& inner) : inner_(inner) {}
    std::span<const model::Segment> segments(schedule::ActionKind kind) const override {
        return inner_.segments(kind);
    }
    void run(int segment, const model::StageIo& io) override {
        model::StageIo other = io;
        other.action.micro_batch ^= 1;
        inner_.run(segment, other);
    }

 private:
    model::Stage& inner_;
};

TEST(VerifyOps, TheFirstStageTakesMicroBatchesInAnotherOrder) {
    AssemblyHooks hooks;
    hooks.stages.push_back(
        [](const model::StageModel& model, model::Stage& inner) -> std::unique_ptr<model::Stage> {
            if (model.embedding_table()) return std::make_unique<ReorderedStage>(inner);
            class Same final : public model::Stage {
             public:
                explicit Same(model::Stage& stage) : stage_(stage) {}
                std::span<const model::Segment> segments(schedule::ActionKind kind) const override {
                    return stage_.segments(kind);
                }
                void run(int segment, const model::StageIo& io) override { stage_.run(segment, io); }

             private:
                model::Stage& stage_;
            };
            return std::make_unique<Same>(inner);
        });
    expect_found(verify_grids(gpt2, one, pp2, hooks), "micro-batch order", "sample 0 has that of sample 1");
}

// ---- backward ----

TEST(VerifyOps, GradientsAreDividedByTheMicroBatchesTwice) {
    OtherOps ops;
    ops.cross_entropy_finish = [](const OpContext& c, TensorView losses, TensorView logits,
                                  TensorView statistics, TensorView targets, std::int64_t begin,
                                  std::int64_t valid, const float* scale, bool gradient) {
        const float less = *scale / static_cast<float>(micro_batches);
        kernels::cpu_ops().cross_entropy_finish(c, losses, logits, statistics, targets, begin, valid, &less,
                                                gradient);
    };
    expect_found(with_ops(gpt2, one, pp2, ops), "scaled once too often", "1/8 (= 1/micro-batches");
    expect_found(with_ops(llama, one, tp2, ops), "scaled once too often", "1/8 (= 1/micro-batches");
}

// Scales what it passes on to the stage before it.
class ScalingStage final : public model::Stage {
 public:
    explicit ScalingStage(model::Stage& inner) : inner_(inner) {}
    std::span<const model::Segment> segments(schedule::ActionKind kind) const override {
        return inner_.segments(kind);
    }
    void run(int segment, const model::StageIo& io) override {
        inner_.run(segment, io);
        const bool last = static_cast<std::size_t>(segment) + 1 == segments(io.action.kind).size();
        if (!last || !io.input_gradient.has_data()) return;
        for (std::int64_t i = 0; i < io.input_gradient.elements(); ++i)
            io.input_gradient.as<float>()[i] /= static_cast<float>(micro_batches);
    }

 private:
    model::Stage& inner_;
};

TEST(VerifyOps, EveryStageDividesByTheMicroBatches) {
    AssemblyHooks hooks;
    hooks.stages.push_back(
        [](const model::StageModel&, model::Stage& inner) { return std::make_unique<ScalingStage>(inner); });
    for (const Overrides& grid : {pp2, pp4})
        expect_found(verify_grids(gpt2, one, grid, hooks), "scaled again at every stage",
                     "1/8 (= 1/micro-batches");
}

TEST(VerifyOps, OnlyTheLastMicroBatchIsKept) {
    OtherOps ops;
    ops.linear_backward_weight = [](const OpContext& c, TensorView dweight, TensorView dbias, TensorView dy,
                                    TensorView x, kernels::Accumulate) {
        kernels::cpu_ops().linear_backward_weight(c, dweight, dbias, dy, x, kernels::Accumulate::overwrite);
    };
    expect_found(with_ops(gpt2, one, pp2, ops), "missing samples", "all micro-batches but 7");
}

// Every forward pass after the first of a step's micro-batch, or the backward pass, draws another mask.
TEST(VerifyOps, RecomputeDrawsAnotherMask) {
    static bool backward;
    class WatchedStage final : public model::Stage {
     public:
        explicit WatchedStage(model::Stage& stage) : stage_(stage) {}
        std::span<const model::Segment> segments(schedule::ActionKind kind) const override {
            return stage_.segments(kind);
        }
        void run(int segment, const model::StageIo& io) override {
            backward = io.action.kind != schedule::ActionKind::F;
            stage_.run(segment, io);
        }

     private:
        model::Stage& stage_;
    };
    AssemblyHooks hooks;
    hooks.stages.push_back(
        [](const model::StageModel&, model::Stage& inner) { return std::make_unique<WatchedStage>(inner); });
    OtherOps ops;
    ops.dropout = [](const OpContext& c, TensorView x, TensorView bias, const kernels::DropoutKey& key,
                     float p, std::int64_t sequence) {
        kernels::DropoutKey own = key;
        own.seed += backward && bias.has_data();  // of a forward pass
        kernels::cpu_ops().dropout(c, x, bias, own, p, sequence);
    };
    expect_found(
        with_ops(tied_gpt2 + ", dropout: 0.1", one, {"parallel.pp=2", "train.recompute=full"}, ops, hooks),
        "other dropout mask", "computed anew");
}

TEST(VerifyOps, ReplicatedNormGradientsAreSummedOverTp) {
    const VerifyResult result = with_parameters(gpt2, one, tp2pp2, [](model::Parameter& p) {
        if (p.replicas == model::Replicas::tp && p.name.find("ln_") != std::string::npos)
            p.replicas = model::Replicas::tp_sum;
    });
    expect_found(result, "replicated gradient summed over tp", "tp = 2 times");
}

// ---- norm and update ----

TEST(VerifyOps, TheNormCountsReplicatedParametersOnEveryRank) {
    const VerifyResult result =
        with_parameters(gpt2, one, tp2, [](model::Parameter& p) { p.counted = true; });
    expect_found(result, "norm counts replicated parameters", "more than once");
}

TEST(VerifyOps, TheNormCountsTheTiedTableTwice) {
    const VerifyResult result =
        with_parameters(tied_gpt2, one, pp2, [](model::Parameter& p) { p.counted = true; });
    expect_found(result, "norm counts the tied table", "more than once");
}

TEST(VerifyOps, WeightDecayActsOnVectors) {
    const VerifyResult result = with_parameters(gpt2, one, pp2, [](model::Parameter& p) { p.decay = true; });
    expect_found(result, "weight decay", "acts on vectors");
}

TEST(VerifyOps, WeightDecayLeavesMatricesOut) {
    for (const Overrides& grid : {pp2, tp2}) {
        const VerifyResult result =
            with_parameters(gpt2, one, grid, [](model::Parameter& p) { p.decay = false; });
        expect_found(result, "weight decay", "leaves them out");
    }
}

TEST(VerifyOps, TheTiedCopyIsNotUpdated) {
    OtherOps ops;
    ops.adamw_step = [](const OpContext& c, std::span<const kernels::OptimizerTensor> tensors,
                        const kernels::AdamwParameters& parameters) {
        std::vector<kernels::OptimizerTensor> updated(tensors.begin(), tensors.end());
        std::erase_if(updated, [](const auto& tensor) {
            return op_place().pp_rank > 0 && tensor.weight.shape().rank() == 2 &&
                   tensor.weight.extent(0) == 200;
        });
        kernels::cpu_ops().adamw_step(c, updated, parameters);
    };
    const VerifyResult result = with_ops(tied_gpt2, one, pp2, ops);
    EXPECT_FALSE(result.equal);
    EXPECT_TRUE(result.diagnosis.cause == "stale tied copy" || result.diagnosis.cause == "optimizer moment")
        << result.diagnosis.cause << ". " << result.diagnosis.text;
    EXPECT_NE(result.diagnosis.text.find("wte.weight"), std::string::npos) << result.diagnosis.text;
}

TEST(VerifyOps, TheLearningRateDiffers) {
    OtherOps ops;
    ops.adamw_step = [](const OpContext& c, std::span<const kernels::OptimizerTensor> tensors,
                        const kernels::AdamwParameters& parameters) {
        kernels::AdamwParameters other = parameters;
        other.lr *= 2;
        kernels::cpu_ops().adamw_step(c, tensors, other);
    };
    expect_found(with_ops(gpt2, one, pp2, ops), "size of the update", "2 times as far");
}

TEST(VerifyOps, AnotherOrderOfSumsIsCalledThat) {
    OtherOps ops;
    ops.sum_losses = [](const OpContext& c, TensorView sum, TensorView losses,
                        kernels::Accumulate accumulate) {
        kernels::cpu_ops().sum_losses(c, sum, losses, accumulate);
        *sum.as<double>() *= 1 + 1e-15;
    };
    const VerifyResult result = with_ops(gpt2, one, pp2, ops);
    EXPECT_EQ(result.first, "loss");
    EXPECT_EQ(result.diagnosis.cause, "order of sums") << result.diagnosis.text;
}

TEST(VerifyOps, ACloserLookThatFailsLeavesTheVerdictAsItIs) {
    AssemblyHooks hooks;
    hooks.parameters = [](model::ParameterList& list) {
        for (model::Parameter& parameter : list) parameter.decay = true;
    };
    int built = 0;
    hooks.groups = [&built](parallel::Groups&) {
        if (built++ > 0) throw IoError::read("no room for a second run");
    };
    const VerifyResult result = verify_grids(gpt2, one, pp2, hooks);
    expect_found(result, "weight decay", "acts on vectors");
    EXPECT_EQ(result.experiments,
              std::vector<std::string>{"with activations: could not be run (no room for a second run)"});
}

}  // namespace
}  // namespace escalier::train
