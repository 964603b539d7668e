#include "core/rng.h"

#include <gtest/gtest.h>

namespace escalier {
namespace {

// Known answers of Random123's kat_vectors for philox4x32-10.
TEST(Philox, MatchesTheKnownAnswers) {
    EXPECT_EQ(philox(0, 0, 0), (PhiloxBlock{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
    EXPECT_EQ(philox(~0ull, ~0ull, ~0ull), (PhiloxBlock{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
    EXPECT_EQ(philox(0x299f31d0a4093822ull, 0x0370734413198a2eull, 0x85a308d3243f6a88ull),
              (PhiloxBlock{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(Normal, HasMeanZeroAndVarianceOne) {
    double sum = 0, squares = 0;
    constexpr int n = 200000;
    for (int i = 0; i < n; ++i) {
        const double x = normal(1234, stream_of("wte"), static_cast<std::uint64_t>(i));
        sum += x;
        squares += x * x;
    }
    EXPECT_NEAR(sum / n, 0.0, 0.01);
    EXPECT_NEAR(squares / n, 1.0, 0.015);
}

}  // namespace
}  // namespace escalier
