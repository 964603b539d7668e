#include "swiglu_reference.h"

namespace escalier::kernels::test {
namespace {

class SwigluTest : public testing::TestWithParam<std::pair<std::int64_t, std::int64_t>> {
 protected:
    const std::int64_t rows = GetParam().first, columns = GetParam().second;
    const Floats gate_up = random_floats(rows * 2 * columns, 1, 2.0f), dy = random_floats(rows * columns, 2);

    Floats forward(const OpContext& context) const {
        GuardedBuffer<float> in(Shape{rows, 2 * columns}, gate_up), y(Shape{rows, columns});
        cpu_ops().swiglu_forward(context, y.view(), in.view());
        return y.values();
    }
    Floats backward(const OpContext& context) const {
        GuardedBuffer<float> in(Shape{rows, 2 * columns}, gate_up), out(Shape{rows, 2 * columns});
        GuardedBuffer<float> d(Shape{rows, columns}, dy);
        cpu_ops().swiglu_backward(context, out.view(), d.view(), in.view());
        return out.values();
    }
    Numbers<Tracked> gradient() const {
        return swiglu_gradient(rows, columns, numbers<Tracked>(gate_up), numbers<Tracked>(dy));
    }
};

TEST_P(SwigluTest, MatchesReference) {
    expect_near(forward(Runner()), swiglu_reference(rows, columns, numbers<Tracked>(gate_up)), "y");
    expect_near(backward(Runner()), gradient(), "dgate_up");
}

TEST_P(SwigluTest, ReferenceGradientIsTheDerivative) {
    expect_gradient([&](const Numbers<double>& in) { return swiglu_reference(rows, columns, in); },
                    numbers<double>(dy), numbers<double>(gate_up), values_of(gradient()), "dgate_up");
}

TEST_P(SwigluTest, DoesNotDependOnThreads) {
    expect_thread_invariant([&](const OpContext& context) {
        Floats all = forward(context);
        append(all, backward(context));
        return all;
    });
}

INSTANTIATE_TEST_SUITE_P(Sizes, SwigluTest,
                         testing::Values(std::pair{1, 1}, std::pair{3, 17}, std::pair{17, 65},
                                         std::pair{65, 300}));

TEST(SwigluEdgeTest, LargeGatesSaturate) {
    GuardedBuffer<float> in(Shape{2, 2}, Floats{-1000.0f, 3.0f, 1000.0f, 3.0f}), y(Shape{2, 1});
    cpu_ops().swiglu_forward(Runner(), y.view(), in.view());
    EXPECT_EQ(y[0], 0.0f);
    EXPECT_EQ(y[1], 3000.0f);
}

}  // namespace
}  // namespace escalier::kernels::test
