#include "train/stage_costs.h"

#include <gtest/gtest.h>

#include <numeric>

#include "config/layout.h"
#include "config/model_facts.h"
#include "config/validate.h"

namespace escalier::train {
namespace {

config::JobSpec spec_of(const std::string& extra) {
    return config::load_resolved({"test",
                                  "version: 1\nmodel: {preset: small}\nparallel: {pp: 2}\n"
                                  "train: {seq_len: 128, micro_batch: 2, global_batch: 8, steps: 1" +
                                      extra + "}\n"},
                                 {}, 2)
        .spec;
}

double sum(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST(StageCosts, AddUpToTheModelsFlops) {
    const config::JobSpec spec = spec_of("");
    const schedule::Durations d = predicted_durations(spec);
    const config::ModelCost cost = config::forward_cost(spec.model, 128, 1);
    const double all = sum(d.forward) + sum(d.input_gradient) + sum(d.weight_gradient) - 3 * cost.embedding;
    // The head over the padded vocabulary, 50304 for 50257.
    EXPECT_NEAR(all / config::flops_per_token(spec.model, 128), 1.0, 2e-3);
}

TEST(StageCosts, AreWhatASleepingClockIsSetTo) {
    config::JobSpec spec = spec_of(", recompute: [full, none]");
    spec.run.clock = "sleep";
    spec.run.layer_ms = 4;
    spec.pipeline.layers_per_stage = {2, 4};
    const schedule::Durations d = predicted_durations(spec);
    EXPECT_EQ(d.forward, (std::vector<double>{8e-3, 16e-3}));
    EXPECT_EQ(d.input_gradient, (std::vector<double>{16e-3, 16e-3}));
    EXPECT_EQ(d.weight_gradient, (std::vector<double>{8e-3, 16e-3}));
}

TEST(StageCosts, TheHeadWorksInForwardAndRecomputeInTheInputHalf) {
    const schedule::Durations plain = predicted_durations(spec_of(""));
    const schedule::Durations full = predicted_durations(spec_of(", recompute: [full, none]"));
    EXPECT_GT(plain.forward[1], plain.weight_gradient[1]);
    EXPECT_GT(full.input_gradient[0] / full.forward[0], 1.9);
    EXPECT_DOUBLE_EQ(full.weight_gradient[0] / full.forward[0], plain.weight_gradient[0] / plain.forward[0]);
}

}  // namespace
}  // namespace escalier::train
