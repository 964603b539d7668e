#include "comm/combine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/bfloat16.h"
#include "core/error.h"

namespace escalier::comm {
namespace {

TEST(Combine, AddsInTheOrderOfTheSources) {
    for (const std::int64_t elements : {1, 7, 1024, 3000}) {
        const auto n = static_cast<std::size_t>(elements);
        // (1e8 + -1e8) + 1 = 1, while any other order loses the 1.
        std::vector<float> a(n, 1e8f), b(n, -1e8f), c(n, 1.0f), out(n, 9.0f);
        const void* sources[] = {a.data(), b.data(), c.data()};
        combine_in_order(Combine::sum, DType::f32, out.data(), sources, 3, elements);
        EXPECT_EQ(out, std::vector<float>(n, 1.0f));
        const void* reversed[] = {c.data(), b.data(), a.data()};
        combine_in_order(Combine::sum, DType::f32, c.data(), reversed, 3, elements);  // into a source
        EXPECT_EQ(c, std::vector<float>(n, 0.0f));
        combine_in_order(Combine::sum, DType::f32, a.data(), sources, 2, elements);
        EXPECT_EQ(a, std::vector<float>(n, 0.0f));
    }
}

TEST(Combine, BFloat16IsSummedInFloatAndRoundedOnce) {
    // 256 + 1 = 257 is 256 in bfloat16: adding pairs would lose both ones.
    const auto all = [](float x) { return std::vector<BFloat16>(1500, to_bfloat16(x)); };
    const std::vector<BFloat16> large = all(256), one = all(1);
    std::vector<BFloat16> out = all(0);
    const void* sources[] = {large.data(), one.data(), one.data()};
    combine_in_order(Combine::sum, DType::bf16, out.data(), sources, 3, 1500);
    for (const BFloat16 x : out) EXPECT_EQ(to_float(x), 258);
    combine_in_order(Combine::sum, DType::bf16, out.data(), sources, 2, 1500);
    for (const BFloat16 x : out) EXPECT_EQ(to_float(x), 256);
}

TEST(Combine, MaximumIsNaNIfAnyIs) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double a[] = {1, nan, 3, -5}, b[] = {2, 2, nan, -7};
    double out[4];
    const void* sources[] = {a, b};
    combine_in_order(Combine::max, DType::f64, out, sources, 2, 4);
    EXPECT_EQ(out[0], 2);
    EXPECT_TRUE(std::isnan(out[1]));
    EXPECT_TRUE(std::isnan(out[2]));
    EXPECT_EQ(out[3], -5);
    int x[] = {1, -4}, y[] = {0, -3};
    const void* integers[] = {x, y};
    combine_in_order(Combine::max, DType::i32, x, integers, 2, 2);
    EXPECT_EQ(x[0], 1);
    EXPECT_EQ(x[1], -3);
}

TEST(Combine, RefusesOtherTypes) {
    EXPECT_FALSE(can_combine(Combine::sum, DType::i32));
    EXPECT_FALSE(can_combine(Combine::max, DType::f32));
    float x = 0;
    const void* sources[] = {&x};
    EXPECT_THROW(combine_in_order(Combine::max, DType::bf16, &x, sources, 1, 1), InternalError);
}

}  // namespace
}  // namespace escalier::comm
