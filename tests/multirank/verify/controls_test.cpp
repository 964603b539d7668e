// Right grids raise no alarm: to the bit where that is promised, within rounding elsewhere.
#include <gtest/gtest.h>

#include "tests/multirank/verify/verified_job.h"

namespace escalier::train {
namespace {

using Overrides = std::vector<std::string>;

Overrides grid(int tp, int pp, int dp, const Overrides& more = {}) {
    Overrides out = {"parallel.tp=" + std::to_string(tp), "parallel.pp=" + std::to_string(pp),
                     "parallel.dp=" + std::to_string(dp)};
    out.insert(out.end(), more.begin(), more.end());
    return out;
}

std::string text(const Overrides& overrides) {
    std::string out;
    for (const std::string& value : overrides) out += value + " ";
    return out;
}

void expect_equal(const std::string& model, const Overrides& a, const Overrides& b, bool bits,
                  bool activations = false) {
    SCOPED_TRACE(model + ": " + text(a) + "and " + text(b));
    const VerifyResult result = verify_grids(model, a, b, {}, 3, activations);
    EXPECT_EQ(result.bits, bits);
    EXPECT_TRUE(result.equal) << result.first << " in step " << result.step << ": " << result.diagnosis.cause
                              << ". " << result.diagnosis.text;
    double largest = 0;
    for (const VerifyRow& row : result.rows) {
        EXPECT_EQ(row.differing, 0u) << row.what << " of step " << row.step;
        largest = std::max(largest, row.ratio);
        if (bits) {
            EXPECT_EQ(row.ratio, 0) << row.what << " of step " << row.step;
        }
    }
    // The rounding expected leaves a margin, and is no more than a guess in the right order of size.
    EXPECT_LT(largest, 0.7);
}

const std::vector<std::string> models = {
    gpt2,
    tied_gpt2 + ", dropout: 0.1",
    llama + ", qk_norm: true",
    "arch: llama, hidden_size: 32, num_heads: 4, num_kv_heads: 1, ffn_size: 72, qkv_bias: true",
};

TEST(VerifyControls, EveryPipelineIsEqualToTheBit) {
    const char* schedules[] = {"gpipe", "1f1b", "zb-h1", "zb-h2"};
    for (std::size_t i = 0; i < models.size(); ++i)
        for (const int pp : {2, 4})
            expect_equal(models[i], grid(1, 1, 1),
                         grid(1, pp, 1, {std::string("pipeline.schedule=") + schedules[(i + pp / 2) % 4]}),
                         true);
}

TEST(VerifyControls, ChunksLayoutsAndRecomputeAreEqualToTheBit) {
    for (const std::string& model : {models[1], models[2]}) {
        expect_equal(model, grid(1, 2, 1),
                     grid(1, 2, 1, {"pipeline.schedule=interleaved", "pipeline.chunks=2"}), true);
        expect_equal(model, grid(1, 2, 1), grid(1, 2, 1, {"pipeline.schedule=zbv"}), true);
        expect_equal(model, grid(1, 2, 1), grid(1, 2, 1, {"pipeline.layout=[3, 1]"}), true);
        expect_equal(model, grid(2, 2, 1), grid(2, 1, 1, {"train.recompute=full"}), true, true);
        expect_equal(model, grid(1, 2, 2), grid(1, 1, 2, {"train.recompute=attention"}), true, true);
    }
}

TEST(VerifyControls, TensorAndDataParallelGridsAreEqualUpToRounding) {
    for (const std::string& model : models)
        for (const Overrides& other : {grid(2, 1, 1), grid(4, 1, 1), grid(1, 1, 4), grid(2, 2, 1),
                                       grid(1, 2, 2, {"pipeline.schedule=zb-h1"})})
            expect_equal(model, grid(1, 1, 1), other, false, true);
    expect_equal(gpt2, grid(4, 1, 1), grid(1, 4, 1), false);
    expect_equal(gpt2, grid(1, 2, 2), grid(2, 1, 2), false);
    expect_equal(gpt2, grid(1, 1, 1), grid(1, 1, 1, {"train.micro_batch=4"}), false, true);
}

TEST(VerifyControls, InexactSchedulesAreEqualUpToRounding) {
    for (const std::string& model : {models[1]}) {
        expect_equal(model, grid(1, 1, 1), grid(1, 2, 1, {"pipeline.schedule=dualpipe"}), false, true);
        expect_equal(model, grid(2, 1, 1), grid(2, 2, 1, {"pipeline.schedule=dualpipe"}), false);
        expect_equal(model, grid(1, 2, 1),
                     grid(1, 2, 1, {"pipeline.schedule=gpipe", "pipeline.backward=lifo"}), false);
    }
}

TEST(VerifyControls, OtherOptimizersSettings) {
    expect_equal(gpt2, grid(1, 1, 1, {"optimizer.name=sgd", "lr.peak=0.5"}),
                 grid(2, 2, 1, {"optimizer.name=sgd", "lr.peak=0.5"}), false);
    expect_equal(gpt2, grid(1, 1, 1, {"optimizer.clip_grad=0"}), grid(2, 1, 2, {"optimizer.clip_grad=0"}),
                 false);
}

TEST(VerifyControls, WhatCannotBeComparedIsRefused) {
    const auto refusal = [](const Overrides& a, const Overrides& b, std::int64_t steps) -> std::string {
        try {
            require_comparable({verified_spec(gpt2, a), verified_spec(gpt2, b)}, 4, steps);
        } catch (const ConfigError& error) {
            return error.what();
        }
        return "";
    };
    EXPECT_EQ(refusal(grid(1, 1, 1), grid(2, 2, 1), 20), "");
    EXPECT_NE(refusal(grid(1, 1, 1), grid(4, 2, 1), 2).find("needs 8 ranks, but there are 4"),
              std::string::npos);
    EXPECT_NE(refusal(grid(1, 1, 1), grid(1, 1, 2, {"train.global_batch=4"}), 2)
                  .find("train.global_batch is 8 on the first grid and 4 on the second"),
              std::string::npos);
    EXPECT_NE(refusal(grid(1, 1, 1), grid(1, 1, 1), 21).find("train.steps is 20"), std::string::npos);
    EXPECT_NE(refusal(grid(1, 1, 1), grid(1, 1, 1, {"model.dropout=0.5"}), 2).find("other models"),
              std::string::npos);
}

}  // namespace
}  // namespace escalier::train
