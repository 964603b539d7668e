#include "kernels/common/exp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace escalier::kernels {
namespace {

float exp_of(float x) {
    return exp_lanes(broadcast(x))[5];
}

// The distance in units in the last place of the exact result.
double error_in_ulp(float x) {
    const double exact = std::exp(static_cast<double>(x));
    const auto nearest = static_cast<float>(exact);
    const double ulp =
        static_cast<double>(std::nextafter(nearest, std::numeric_limits<float>::infinity())) - nearest;
    return std::abs(exp_of(x) - exact) / ulp;
}

TEST(ExpTest, IsGoodToTwoUnitsInTheLastPlace) {
    double worst = 0;
    for (double x = -87.3; x < 88.7; x += 0.00137)
        worst = std::max(worst, error_in_ulp(static_cast<float>(x)));
    EXPECT_LE(worst, 2.0);
    for (int n = -60; n <= 60; ++n)  // around the switch points of the range reduction
        for (const float nudge : {-1e-6f, 0.0f, 1e-6f})
            EXPECT_LE(error_in_ulp((static_cast<float>(n) + 0.5f) * 0.69314718f + nudge), 2.0);
}

TEST(ExpTest, EndsOfTheRange) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(exp_of(0.0f), 1.0f);
    EXPECT_EQ(exp_of(-infinity), 0.0f);
    EXPECT_EQ(exp_of(-104.0f), 0.0f);
    EXPECT_EQ(exp_of(infinity), infinity);
    EXPECT_EQ(exp_of(88.8f), infinity);
    EXPECT_TRUE(std::isnan(exp_of(std::numeric_limits<float>::quiet_NaN())));
    EXPECT_NEAR(exp_of(-95.0f), std::exp(-95.0), 2e-45);  // subnormal
}

TEST(SigmoidTest, SaturatesWithoutNan) {
    EXPECT_EQ(sigmoid_lanes(broadcast(200.0f))[0], 1.0f);
    EXPECT_EQ(sigmoid_lanes(broadcast(-200.0f))[0], 0.0f);
    EXPECT_EQ(sigmoid_lanes(broadcast(0.0f))[0], 0.5f);
}

}  // namespace
}  // namespace escalier::kernels
