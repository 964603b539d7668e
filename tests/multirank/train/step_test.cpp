// What must hold for every step on every grid of four ranks: nothing is allocated, replicas stay equal to the
// bit, and threads change nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "config/validate.h"
#include "tests/harness/count_allocations.h"
#include "tests/harness/fingerprint.h"
#include "tests/harness/multirank_main.h"
#include "tests/multirank/train/token_reader.h"
#include "train/assembly.h"

namespace escalier::train {
namespace {

struct Grid {
    int tp, pp, dp;
};
const std::vector<Grid> grids = {{2, 2, 1}, {1, 2, 2}, {2, 1, 2}, {4, 1, 1}, {1, 4, 1}, {1, 1, 4}};

const char* const tied_gpt2 = "arch: gpt2, hidden_size: 32, num_heads: 4, dropout: 0.1";
const char* const llama =
    "arch: llama, hidden_size: 32, num_heads: 4, num_kv_heads: 2, ffn_size: 72, qk_norm: true";

config::JobSpec spec_of(const char* model, const Grid& grid) {
    const auto number = [](int value) { return std::to_string(value); };
    const std::string text = std::string("version: 1\nrun: {device: cpu}\nmodel: {") + model +
                             ", num_layers: 5, vocab_size: 61}\n" + "parallel: {tp: " + number(grid.tp) +
                             ", pp: " + number(grid.pp) + ", dp: " + number(grid.dp) +
                             "}\ntrain: {seq_len: 16, micro_batch: 1, global_batch: 12, steps: 50}\n" +
                             "lr: {peak: 1e-2, warmup_steps: 3}\n";
    return config::load_resolved({"test", text}, {}, grid.tp * grid.pp * grid.dp).spec;
}

void expect_equal_over(comm::Communicator& group, double mine, const std::string& what) {
    std::vector<double> all(static_cast<std::size_t>(group.size()));
    group.all_gather(TensorView(all.data(), DType::f64, {group.size()}), TensorView(&mine, DType::f64, {1}),
                     "test");
    for (double value : all) EXPECT_EQ(value, all[0]) << what;
}

void expect_equal_replicas(Assembly& assembly) {
    const parallel::Groups& groups = assembly.groups();
    for (const model::Parameter& p : assembly.model().parameters()) {
        const double mine = test::fingerprint(p.weight);
        expect_equal_over(*groups.dp, mine, p.name + " over dp");
        if (p.replicas == model::Replicas::tp || p.replicas == model::Replicas::tp_sum)
            expect_equal_over(*groups.tp, mine, p.name + " over tp");
        if (p.replicas == model::Replicas::kv_sum) expect_equal_over(*groups.kv, mine, p.name + " over kv");
        if (p.tie_group >= 0 && groups.tied)
            expect_equal_over(*groups.tied, mine, p.name + " over tied stages");
    }
}

TEST(TrainStep, AllocatesNothingAfterTheFirstStepAndReplicasStayEqual) {
    const Tokens tokens;
    for (const char* model : {tied_gpt2, llama})
        for (const Grid& grid : grids) {
            SCOPED_TRACE(std::string(model) + " on " + std::to_string(grid.tp) + "x" +
                         std::to_string(grid.pp) + "x" + std::to_string(grid.dp));
            const config::JobSpec spec = spec_of(model, grid);
            Assembly assembly(spec, test::env(), test::env().world(), {.threads = 1, .validation = true});
            for (std::int64_t step = 1; step <= 4; ++step) {
                const std::int64_t before = test::allocations_of_this_thread();
                const StepResult result = assembly.step().run(tokens, (step - 1) * 12, step);
                const std::int64_t allocated = test::allocations_of_this_thread() - before;
                if (step > 1) {
                    EXPECT_EQ(allocated, 0) << "step " << step;
                }
                EXPECT_GT(result.grad_norm, 0);
                expect_equal_replicas(assembly);
            }
            std::int64_t targets = 0;
            const double loss = assembly.step().validate(tokens, 0, targets);
            EXPECT_EQ(targets, 12 * 16);
            EXPECT_LT(loss / 192, 6);
            // Validation leaves the next step as it would have been.
            EXPECT_GT(assembly.step().run(tokens, 48, 5).grad_norm, 0);
        }
}

// Of equal logits every token costs ln V, whatever ranks hold the vocabulary; on four of them three hold
// padding alone.
TEST(TrainStep, AHeadOfZerosCostsTheLogarithmOfTheVocabulary) {
    const Tokens tokens;
    for (const Grid& grid : grids) {
        config::JobSpec spec =
            spec_of("arch: gpt2, hidden_size: 32, num_heads: 4, tie_embeddings: false", grid);
        Assembly assembly(spec, test::env(), test::env().world(), {.threads = 1, .validation = false});
        for (const model::Parameter& p : assembly.model().parameters())
            if (p.name == "lm_head.weight") std::fill_n(p.weight.as<float>(), p.weight.elements(), 0.0f);
        assembly.model().prepare_weights();
        EXPECT_NEAR(assembly.step().run(tokens, 0, 1).loss, std::log(61.0), 1e-6)
            << grid.tp << "x" << grid.pp;
    }
}

struct Curve {
    std::vector<double> losses, norms;
    std::vector<double> weights;
};

Curve train(const config::JobSpec& spec, int threads) {
    const Tokens tokens;
    Assembly assembly(spec, test::env(), test::env().world(), {.threads = threads, .validation = false});
    Curve curve;
    for (std::int64_t step = 1; step <= 5; ++step) {
        const StepResult result = assembly.step().run(tokens, (step - 1) * 12, step);
        curve.losses.push_back(result.loss);
        curve.norms.push_back(result.grad_norm);
    }
    for (const model::Parameter& p : assembly.model().parameters())
        curve.weights.push_back(test::fingerprint(p.weight));
    return curve;
}

TEST(TrainStep, ThreadsAndRepetitionChangeNoBit) {
    for (const char* model : {tied_gpt2, llama})
        for (const Grid& grid : {Grid{2, 2, 1}, Grid{1, 2, 2}}) {
            const config::JobSpec spec = spec_of(model, grid);
            const Curve one = train(spec, 1);
            for (int threads : {1, 2, 3}) {
                const Curve other = train(spec, threads);
                EXPECT_EQ(one.losses, other.losses) << threads << " threads";
                EXPECT_EQ(one.norms, other.norms) << threads << " threads";
                EXPECT_EQ(one.weights, other.weights) << threads << " threads";
            }
        }
}

}  // namespace
}  // namespace escalier::train
