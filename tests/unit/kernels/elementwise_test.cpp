#include "core/bfloat16.h"
#include "op_harness.h"

namespace escalier::kernels::test {
namespace {

class ElementwiseTest : public testing::TestWithParam<std::int64_t> {
 protected:
    const std::int64_t n = GetParam();
    const Floats a = random_floats(n, 1), b = random_floats(n, 2);
};

TEST_P(ElementwiseTest, FillCopyAdd) {
    const Runner runner;
    GuardedBuffer<float> x(Shape{n}), y(Shape{n}, a), z(Shape{n}, b);
    cpu_ops().fill(runner, x.view(), 2.5f);
    EXPECT_EQ(x.values(), Floats(static_cast<std::size_t>(n), 2.5f));
    cpu_ops().copy(runner, x.view(), y.view());
    expect_same_bits(x.values(), a, "copy");
    cpu_ops().add(runner, x.view(), z.view());
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(x[static_cast<std::int64_t>(i)], a[i] + b[i]);
}

TEST_P(ElementwiseTest, CopyMovesOtherElementTypes) {
    GuardedBuffer<int> from(Shape{n}), to(Shape{n});
    for (std::int64_t i = 0; i < n; ++i) from[i] = static_cast<int>(i * 7 - 3);
    cpu_ops().copy(Runner(), to.view(), from.view());
    EXPECT_EQ(from.values(), to.values());
}

TEST_P(ElementwiseTest, SumOfSquaresIsInDouble) {
    Floats values = a;
    if (n > 2) values[0] = 3e4f;  // its square swallows the others in fp32
    double expected = 0;
    for (const float value : values) expected += static_cast<double>(value) * value;
    GuardedBuffer<float> x(Shape{n}, values);
    GuardedBuffer<double> one(Shape{3}, {-1, -1, -1}), three(Shape{3}, {-1, -1, -1});
    const SumTerm term{x.view(), 1};
    cpu_ops().sum_of_squares(Runner(1), one.view(), {&term, 1});
    cpu_ops().sum_of_squares(Runner(3), three.view(), {&term, 1});
    EXPECT_NEAR(one[1], expected, 1e-12 * expected);
    EXPECT_EQ(one.values(), three.values());
    EXPECT_EQ(one[0], -1);
    EXPECT_EQ(one[2], -1);
}

TEST_P(ElementwiseTest, CountsNanAndInfinity) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    Floats values = a;
    values.front() = infinity;
    values[values.size() / 2] = -infinity;
    values.back() = std::numeric_limits<float>::quiet_NaN();
    std::int64_t expected = 0;
    for (const float value : values) expected += !std::isfinite(value);
    GuardedBuffer<float> x(Shape{n}, values), finite(Shape{n}, a);
    GuardedBuffer<double> count(Shape{1});
    cpu_ops().count_nonfinite(Runner(), count.view(), finite.view(), Accumulate::overwrite);
    EXPECT_EQ(count[0], 0);
    for (const int times : {1, 2}) {
        cpu_ops().count_nonfinite(Runner(), count.view(), x.view(), Accumulate::add);
        EXPECT_EQ(count[0], static_cast<double>(times * expected));
    }
}

TEST_P(ElementwiseTest, CopyConvertsToTheNearest) {
    GuardedBuffer<float> from(Shape{n}, a), back(Shape{n});
    GuardedBuffer<BFloat16> to(Shape{n});
    cpu_ops().copy(Runner(), to.view(), from.view());
    cpu_ops().copy(Runner(), back.view(), to.view());
    for (std::int64_t i = 0; i < n; ++i) {
        EXPECT_EQ(to[i].bits, to_bfloat16(from[i]).bits);
        EXPECT_NEAR(back[i], from[i], std::abs(from[i]) / 256);
    }
}

TEST_P(ElementwiseTest, PartsAreSummedInOrder) {
    GuardedBuffer<float> parts(Shape{3, n}), sum(Shape{n});
    for (std::int64_t i = 0; i < n; ++i) {  // in another order the one would be lost, or survive
        parts[i] = 1e8f;
        parts[n + i] = -1e8f;
        parts[2 * n + i] = a[static_cast<std::size_t>(i)];
    }
    cpu_ops().sum_parts(Runner(), sum.view(), parts.view());
    expect_same_bits(sum.values(), a, "sum");
}

INSTANTIATE_TEST_SUITE_P(Sizes, ElementwiseTest, testing::Values(1, 3, 16, 17, 65, 16385, 100003));

TEST(ResidualAddTest, AddsInPlaceAndWithBias) {
    for (const std::int64_t columns : {1, 3, 17, 65}) {
        const std::int64_t rows = 19, n = rows * columns;
        const Floats residual = random_floats(n, 1), delta = random_floats(n, 2),
                     bias = random_floats(columns, 3);
        for (const bool with_bias : {false, true}) {
            Floats expected(residual.size());
            for (std::size_t i = 0; i < expected.size(); ++i)
                expected[i] = residual[i] +
                              (with_bias ? delta[i] + bias[i % static_cast<std::size_t>(columns)] : delta[i]);
            GuardedBuffer<float> a(Shape{rows, columns}, residual), b(Shape{rows, columns}, delta);
            GuardedBuffer<float> shift(Shape{columns}, bias), sum(Shape{rows, columns});
            const TensorView extra = with_bias ? shift.view() : TensorView();
            cpu_ops().residual_add(Runner(), sum.view(), a.view(), b.view(), extra);
            expect_same_bits(sum.values(), expected, "sum");
            cpu_ops().residual_add(Runner(), b.view(), a.view(), b.view(), extra);
            expect_same_bits(b.values(), expected, "sum over delta");
        }
    }
}

TEST(ElementwiseEdgeTest, EmptyViewsAreNothingToDo) {
    const Runner runner;
    GuardedBuffer<float> x(Shape{0}), y(Shape{0});
    cpu_ops().fill(runner, x.view(), 1.0f);
    cpu_ops().add(runner, x.view(), y.view());
    GuardedBuffer<double> result(Shape{1}, {5});
    const SumTerm term{x.view(), 0};
    cpu_ops().sum_of_squares(runner, result.view(), {&term, 1});
    EXPECT_EQ(result[0], 0.0);
    cpu_ops().count_nonfinite(runner, result.view(), x.view(), Accumulate::add);
    EXPECT_EQ(result[0], 0.0);
}

}  // namespace
}  // namespace escalier::kernels::test
