// B is I then W: gradients to the bit, for both families, every recompute setting, dropout, and with tensor
// ranks.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "config/validate.h"
#include "core/rng.h"
#include "device/device.h"
#include "model/stage_model.h"
#include "parallel/groups.h"
#include "tests/harness/multirank_main.h"

namespace escalier::model {
namespace {

constexpr int micro_batches = 3;

// The whole model on one pipeline rank, driven by hand.
class WholeModel {
 public:
    WholeModel(const config::JobSpec& spec, bool split)
        : spec_(spec),
          groups_(test::env().world(), {static_cast<int>(spec.parallel.tp), 1, 1},
                  static_cast<int>(spec.model.num_kv_heads)),
          device_(device::make_cpu_device()),
          pool_(1),
          scratch_(std::size_t{1} << 22),
          context_{kernels::cpu_ops(),
                   OpContext(pool_, scratch_.data(), scratch_.size()),
                   *groups_.tp,
                   spec.model,
                   shape_of(spec.model, spec.train.micro_batch, spec.train.seq_len, groups_.grid.tp,
                            groups_.place.tp_rank),
                   1234} {
        device::Arenas measured = device::Arenas::measuring();
        build(measured, split);
        arenas_ = std::make_unique<device::Arenas>(
            device::Arenas::allocated(measured, device_->allocator(), device_->host_allocator()));
        build(*arenas_, split);
        initialize(stage_->parameters(), 1234, spec.model.num_layers, pool_, *device_);
        stage_->prepare_weights();
        const std::int64_t rows = context_.shape.rows;
        for (std::int64_t i = 0; i < micro_batches * rows; ++i) {
            tokens_.push_back(static_cast<int>(philox(5, 0, static_cast<std::uint64_t>(i))[0] %
                                               static_cast<std::uint32_t>(spec.model.vocab_size)));
            targets_.push_back(static_cast<int>(philox(6, 0, static_cast<std::uint64_t>(i))[0] %
                                                static_cast<std::uint32_t>(spec.model.vocab_size)));
        }
        stage_->begin_step({TensorView(tokens_.data(), DType::i32, {micro_batches, rows}),
                            TensorView(targets_.data(), DType::i32, {micro_batches, rows}),
                            TensorView(samples_.data(), DType::u64, {micro_batches}),
                            TensorView(&loss_scale_, DType::f32, {1}),
                            TensorView(losses_.data(), DType::f64, {micro_batches}), true});
    }

    // Slots that an action has no use for are not there, as in a program.
    void run(schedule::ActionKind kind, int micro_batch, int forward_slot, int gradient_slot) {
        StageIo io{};
        io.action = {kind, 0, micro_batch};
        io.binding.linear_input_slot = micro_batch;
        if (kind != schedule::ActionKind::W) io.binding.forward_slot = forward_slot;
        if (kind != schedule::ActionKind::F) io.binding.output_gradient_slot = gradient_slot;
        const int segments = static_cast<int>(stage_->segments(kind).size());
        for (int segment = 0; segment < segments; ++segment) stage_->run(segment, io);
    }

    std::vector<float> gradients() const {
        std::vector<float> out;
        for (const Parameter& p : stage_->parameters())
            out.insert(out.end(), p.gradient.as<float>(), p.gradient.as<float>() + p.gradient.elements());
        return out;
    }
    std::vector<double> losses() const { return losses_; }

 private:
    void build(device::Arenas& arenas, bool split) {
        schedule::StageBuffers buffers;
        buffers.forward_slots = buffers.linear_input_slots = micro_batches;
        buffers.output_gradient_slots = split ? micro_batches : 1;
        shared_ = std::make_unique<RankShared>(context_, arenas);
        stage_ = std::make_unique<StageModel>(
            context_, 0, parallel::StagePart{0, spec_.model.num_layers, true, true},
            RecomputePlan{spec_.train.recompute[0], spec_.train.recompute_every}, split, StageSlots{buffers},
            arenas, *shared_, nullptr);
    }

    config::JobSpec spec_;
    parallel::Groups groups_;
    std::unique_ptr<device::Device> device_;
    ComputePool pool_;
    std::vector<char> scratch_;
    ModelContext context_;
    std::unique_ptr<device::Arenas> arenas_;
    std::unique_ptr<RankShared> shared_;
    std::unique_ptr<StageModel> stage_;
    std::vector<int> tokens_, targets_;
    std::vector<std::uint64_t> samples_ = {0, 3, 6};
    std::vector<double> losses_ = std::vector<double>(micro_batches);
    float loss_scale_ = 0.01f;
};

config::JobSpec spec_of(const std::string& model, const std::string& recompute, double dropout) {
    const int ranks = test::env().world().size();
    std::string text =
        "version: 1\nmodel: {" + model +
        ", num_layers: 3, vocab_size: 61, dropout: " + std::to_string(dropout) +
        "}\nparallel: {tp: " + std::to_string(ranks) +
        "}\ntrain: {seq_len: 13, micro_batch: 3, global_batch: 9, steps: 1, recompute: " + recompute + "}\n";
    return config::load_resolved({"test", text}, {}, ranks).spec;
}

struct Outcome {
    std::vector<float> gradients;
    std::vector<double> losses;
};

Outcome run_with_b(const config::JobSpec& spec) {
    WholeModel model(spec, false);
    for (int mb = 0; mb < micro_batches; ++mb) model.run(schedule::ActionKind::F, mb, mb, 0);
    for (int mb = 0; mb < micro_batches; ++mb) model.run(schedule::ActionKind::B, mb, mb, 0);
    return {model.gradients(), model.losses()};
}

// Each I before the next F, which takes its forward slot, and all W at the end: every W reads what its I left
// behind, and nothing that F wrote for I alone.
Outcome run_with_halves(const config::JobSpec& spec) {
    WholeModel model(spec, true);
    for (int mb = 0; mb < micro_batches; ++mb) {
        model.run(schedule::ActionKind::F, mb, 0, -1);
        model.run(schedule::ActionKind::I, mb, 0, mb);
    }
    for (int mb = 0; mb < micro_batches; ++mb) model.run(schedule::ActionKind::W, mb, -1, mb);
    return {model.gradients(), model.losses()};
}

// Whole and halved backward passes side by side on one stage (DualPipe): storage serves both.
Outcome run_mixed(const config::JobSpec& spec) {
    WholeModel model(spec, true);
    for (int mb = 0; mb < micro_batches; ++mb) model.run(schedule::ActionKind::F, mb, mb, -1);
    model.run(schedule::ActionKind::I, 0, 0, 1);
    model.run(schedule::ActionKind::W, 0, -1, 1);
    model.run(schedule::ActionKind::B, 1, 1, 0);
    model.run(schedule::ActionKind::I, 2, 2, 0);
    model.run(schedule::ActionKind::W, 2, -1, 0);
    return {model.gradients(), model.losses()};
}

void expect_same_bits(const Outcome& a, const Outcome& b) {
    ASSERT_EQ(a.gradients.size(), b.gradients.size());
    EXPECT_EQ(std::memcmp(a.gradients.data(), b.gradients.data(), 4 * a.gradients.size()), 0);
    EXPECT_EQ(a.losses, b.losses);
}

const std::vector<std::string> models = {"arch: gpt2, hidden_size: 32, num_heads: 4",
                                         "arch: llama, hidden_size: 24, num_heads: 4, num_kv_heads: 2, "
                                         "ffn_size: 44, qkv_bias: true, qk_norm: true"};

TEST(BackwardHalves, InputThenWeightHalfEqualsB) {
    for (const std::string& model : models)
        for (const char* recompute : {"none", "attention", "full", "{every: 2}"})
            for (double dropout : {0.0, 0.25}) {
                SCOPED_TRACE(model + " recompute " + recompute + " dropout " + std::to_string(dropout));
                const config::JobSpec spec = spec_of(model, recompute, dropout);
                const Outcome whole = run_with_b(spec);
                expect_same_bits(whole, run_with_halves(spec));
                expect_same_bits(whole, run_mixed(spec));
                expect_same_bits(whole, run_with_b(spec_of(model, "none", dropout)));
            }
}

TEST(BackwardHalves, DropoutChangesTheLossAndIsReproducible) {
    for (const std::string& model : models) {
        const Outcome with = run_with_b(spec_of(model, "none", 0.25));
        EXPECT_NE(with.losses, run_with_b(spec_of(model, "none", 0.0)).losses);
        EXPECT_EQ(with.losses, run_with_b(spec_of(model, "none", 0.25)).losses);
    }
}

}  // namespace
}  // namespace escalier::model
