#include "data/blend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace escalier::data {
namespace {

const std::vector<std::vector<double>> blends = {
    {1.0}, {0.5, 0.5}, {0.3, 0.7}, {1.0, 1.0, 1.0}, {0.1, 0.2, 0.3, 0.4}, {1e-6, 1.0}, {5, 1, 1, 1, 1, 1, 1}};

TEST(Blend, EverySourceCountsUpWithoutGapsAndKeepsItsShare) {
    for (const auto& weights : blends) {
        const Blend blend(weights);
        const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
        std::vector<std::int64_t> taken(weights.size(), 0);
        for (std::int64_t k = 0; k < 3000; ++k) {
            for (std::size_t i = 0; i < weights.size(); ++i) {
                EXPECT_EQ(blend.count(static_cast<std::int64_t>(i), k), taken[i]);
                EXPECT_LT(std::abs(static_cast<double>(taken[i]) - weights[i] / sum * static_cast<double>(k)),
                          static_cast<double>(weights.size()));
            }
            const BlendPick pick = blend.pick(k);
            EXPECT_EQ(pick.index, taken[static_cast<std::size_t>(pick.source)]++);
        }
    }
}

TEST(Blend, EqualWeightsUseAllSourcesOncePerRound) {
    for (std::size_t sources = 2; sources < 12; ++sources) {
        const Blend blend(std::vector<double>(sources, 1.0));
        for (std::int64_t samples : {1, 7, 1000, 1'000'003})
            for (std::size_t i = 0; i < sources; ++i)
                EXPECT_EQ(
                    blend.count(static_cast<std::int64_t>(i), samples * static_cast<std::int64_t>(sources)),
                    samples);
    }
}

TEST(Blend, HoldsFarOut) {
    const Blend blend({0.3, 0.7});
    const std::int64_t k = 1'000'000'000'000;
    EXPECT_NEAR(static_cast<double>(blend.count(0, k)), 0.3e12, 2.0);
    EXPECT_EQ(blend.count(0, k) + blend.count(1, k), k);
}

}  // namespace
}  // namespace escalier::data
