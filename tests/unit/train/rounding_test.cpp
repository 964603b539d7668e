#include "train/rounding.h"

#include <gtest/gtest.h>

#include <cmath>

namespace escalier::train {
namespace {

Rounding rounding_of(const std::string& dtype, std::int64_t layers, std::int64_t batch) {
    config::JobSpec spec;
    spec.model.num_layers = layers;
    spec.train.dtype = dtype;
    spec.train.global_batch = batch;
    spec.train.seq_len = 16;
    return Rounding(spec);
}

TEST(Rounding, Fp32HoldsTheContract) {
    const Rounding rounding = rounding_of("fp32", 4, 8);
    EXPECT_EQ(rounding.loss(), 1e-5);
    EXPECT_EQ(rounding.norm(), 1e-4);
    EXPECT_LT(rounding.rho(Quantity::activation), 1e-5);
    EXPECT_LT(rounding.rho(Quantity::gradient), 1e-4);
}

TEST(Rounding, GrowsWithDepthAndWithTokensOfASum) {
    const Rounding small = rounding_of("fp32", 1, 8), deep = rounding_of("fp32", 64, 8),
                   long_sum = rounding_of("fp32", 1, 512);
    EXPECT_GT(deep.rho(Quantity::activation), 2 * small.rho(Quantity::activation));
    EXPECT_EQ(long_sum.rho(Quantity::activation), small.rho(Quantity::activation));
    EXPECT_NEAR(long_sum.rho(Quantity::gradient) / small.rho(Quantity::gradient), 8, 1e-9);
}

TEST(Rounding, Bf16HidesNoFactorOfTwo) {
    for (const std::int64_t layers : {4, 48})
        for (const std::int64_t batch : {8, 1024}) {
            const Rounding rounding = rounding_of("bf16", layers, batch);
            EXPECT_LT(rounding.loss(), 0.01) << layers << " layers, batch " << batch;
            EXPECT_LT(rounding.norm(), 0.1);
            EXPECT_LE(rounding.whole(), 0.25);
            EXPECT_GT(rounding.whole(), std::exp2(-8));
        }
}

}  // namespace
}  // namespace escalier::train
