#include "op_harness.h"

namespace escalier::kernels::test {
namespace {

template <class T>
Numbers<T> swiglu_reference(std::int64_t rows, std::int64_t columns, const Numbers<T>& gate_up) {
    using std::exp;
    Numbers<T> y;
    for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t i = 0; i < columns; ++i) {
            const auto gate = static_cast<std::size_t>(row * 2 * columns + i);
            const T z = gate_up[gate];
            y.push_back(z / (T(1.0) + exp(-z)) * gate_up[gate + static_cast<std::size_t>(columns)]);
        }
    return y;
}

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
        Numbers<Tracked> out(gate_up.size());
        for (std::size_t i = 0; i < dy.size(); ++i) {
            const auto wide = static_cast<std::size_t>(columns);
            const std::size_t at = i / wide * 2 * wide + i % wide;
            const Tracked z(gate_up[at]), up(gate_up[at + wide]), d(dy[i]);
            const Tracked s = Tracked(1.0) / (Tracked(1.0) + exp(-z));
            out[at] = d * up * (s + z * s * (Tracked(1.0) - s));
            out[at + wide] = d * z * s;
        }
        return out;
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
