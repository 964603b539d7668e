#include "linear_reference.h"

namespace escalier::kernels::test {
namespace {

class LinearTest : public testing::TestWithParam<LinearSize> {
 protected:
    const LinearSize s = GetParam();
    const Floats x = random_floats(s.rows * s.k, 1), w = random_floats(s.n * s.k, 2, 0.2f);
    const Floats bias = random_floats(s.n, 3), dy = random_floats(s.rows * s.n, 4);
    const Floats pre_of_x = random_floats(s.rows * s.k, 5, 2.0f);

    struct Forward {
        Floats y, pre;
    };
    Forward forward(const OpContext& context, bool with_bias, Epilogue epilogue) const {
        GuardedBuffer<float> x_buffer(Shape{s.rows, s.k}, x), w_buffer(Shape{s.n, s.k}, w);
        GuardedBuffer<float> bias_buffer(Shape{s.n}, bias), y(Shape{s.rows, s.n}), pre(Shape{s.rows, s.n});
        cpu_ops().linear_forward(context, y.view(), epilogue == Epilogue::gelu ? pre.view() : TensorView(),
                                 x_buffer.view(), w_buffer.view(), TensorView(),
                                 with_bias ? bias_buffer.view() : TensorView(), epilogue);
        return {y.values(), pre.values()};
    }
    // With add, dx starts at `start`.
    Floats backward_input(const OpContext& context, Epilogue epilogue, Accumulate accumulate,
                          float start = 0.0f) const {
        GuardedBuffer<float> dy_buffer(Shape{s.rows, s.n}, dy), w_buffer(Shape{s.n, s.k}, w);
        GuardedBuffer<float> pre(Shape{s.rows, s.k}, pre_of_x), dx(Shape{s.rows, s.k});
        if (accumulate == Accumulate::add) std::fill(dx.begin(), dx.end(), start);
        cpu_ops().linear_backward_input(context, dx.view(), dy_buffer.view(), w_buffer.view(), TensorView(),
                                        epilogue == Epilogue::gelu ? pre.view() : TensorView(), epilogue,
                                        accumulate);
        return dx.values();
    }
    struct WeightGradients {
        Floats dweight, dbias;
    };
    WeightGradients backward_weight(const OpContext& context, Accumulate accumulate,
                                    float start = 0.0f) const {
        GuardedBuffer<float> dy_buffer(Shape{s.rows, s.n}, dy), x_buffer(Shape{s.rows, s.k}, x);
        GuardedBuffer<float> dweight(Shape{s.n, s.k}), dbias(Shape{s.n});
        if (accumulate == Accumulate::add) {
            std::fill(dweight.begin(), dweight.end(), start);
            std::fill(dbias.begin(), dbias.end(), start);
        }
        cpu_ops().linear_backward_weight(context, dweight.view(), dbias.view(), dy_buffer.view(),
                                         x_buffer.view(), accumulate);
        return {dweight.values(), dbias.values()};
    }
    Numbers<Tracked> input_gradient() const { return linear_input_gradient(s, dy, w); }
    Numbers<Tracked> weight_gradient() const { return linear_weight_gradient(s, dy, x); }
};

TEST_P(LinearTest, ForwardMatchesReference) {
    const Numbers<Tracked> tx = numbers<Tracked>(x), tw = numbers<Tracked>(w), tb = numbers<Tracked>(bias);
    for (const bool with_bias : {false, true}) {
        const Numbers<Tracked> z = product_and_bias(s, tx, tw, with_bias ? &tb : nullptr);
        expect_near(forward(Runner(), with_bias, Epilogue::none).y, z, "y");
        const Forward out = forward(Runner(), with_bias, Epilogue::gelu);
        expect_near(out.pre, z, "pre");
        Numbers<Tracked> activated;
        for (const Tracked& value : z) activated.push_back(gelu(value));
        expect_near(out.y, activated, "gelu(z)");
    }
}

TEST_P(LinearTest, BackwardInputMatchesReference) {
    const Numbers<Tracked> dx = input_gradient();
    expect_near(backward_input(Runner(), Epilogue::none, Accumulate::overwrite), dx, "dx");
    Numbers<Tracked> with_gelu, added;
    for (std::size_t i = 0; i < dx.size(); ++i) {
        with_gelu.push_back(dx[i] * gelu_derivative(Tracked(pre_of_x[i])));
        added.push_back(dx[i] + Tracked(2.0));
    }
    expect_near(backward_input(Runner(), Epilogue::gelu, Accumulate::overwrite), with_gelu, "dx with gelu");
    expect_near(backward_input(Runner(), Epilogue::none, Accumulate::add, 2.0f), added, "added dx");
}

TEST_P(LinearTest, BackwardWeightMatchesReference) {
    Numbers<Tracked> dweight = weight_gradient(), dbias(static_cast<std::size_t>(s.n));
    for (std::size_t i = 0; i < dy.size(); ++i) dbias[i % dbias.size()] += Tracked(dy[i]);
    const WeightGradients out = backward_weight(Runner(), Accumulate::overwrite);
    expect_near(out.dweight, dweight, "dweight");
    expect_near(out.dbias, dbias, "dbias");
    for (Numbers<Tracked>* sum : {&dweight, &dbias})
        for (Tracked& value : *sum) value += Tracked(-3.0);
    const WeightGradients added = backward_weight(Runner(), Accumulate::add, -3.0f);
    expect_near(added.dweight, dweight, "added dweight");
    expect_near(added.dbias, dbias, "added dbias");
}

TEST_P(LinearTest, OverwriteHasTheBitsOfAddingToZero) {
    const WeightGradients once = backward_weight(Runner(), Accumulate::overwrite);
    const WeightGradients onto_zero = backward_weight(Runner(), Accumulate::add);
    expect_same_bits(once.dweight, onto_zero.dweight, "dweight");
    expect_same_bits(once.dbias, onto_zero.dbias, "dbias");
    expect_same_bits(backward_input(Runner(), Epilogue::none, Accumulate::overwrite),
                     backward_input(Runner(), Epilogue::none, Accumulate::add), "dx");
}

TEST_P(LinearTest, DoesNotDependOnThreads) {
    expect_thread_invariant([&](const OpContext& context) {
        const Forward out = forward(context, true, Epilogue::gelu);
        const WeightGradients gradients = backward_weight(context, Accumulate::overwrite);
        Floats all = out.y;
        append(all, out.pre);
        append(all, backward_input(context, Epilogue::gelu, Accumulate::overwrite));
        append(all, gradients.dweight);
        append(all, gradients.dbias);
        return all;
    });
}

TEST_P(LinearTest, ReferenceGradientIsTheDerivative) {
    const Numbers<double> dx = numbers<double>(x), dw = numbers<double>(w), weights = numbers<double>(dy);
    expect_gradient([&](const auto& in) { return product_and_bias<double>(s, in, dw, nullptr); }, weights, dx,
                    values_of(input_gradient()), "dx", 8);
    expect_gradient([&](const auto& in) { return product_and_bias<double>(s, dx, in, nullptr); }, weights, dw,
                    values_of(weight_gradient()), "dweight", 8);
}

INSTANTIATE_TEST_SUITE_P(Sizes, LinearTest,
                         testing::Values(LinearSize{1, 1, 1}, LinearSize{3, 17, 5}, LinearSize{17, 3, 65},
                                         LinearSize{65, 65, 17}, LinearSize{17, 450, 33},
                                         LinearSize{250, 17, 30}, LinearSize{230, 401, 9}));

TEST(GeluTest, DerivativeOfReferenceIsTheDerivative) {
    Numbers<double> z, derivative;
    for (double value = -6.0; value <= 6.0; value += 0.25) {
        z.push_back(value);
        derivative.push_back(gelu_derivative(Tracked(value)).value);
    }
    const auto activate = [](const Numbers<double>& in) {
        Numbers<double> out;
        for (const double value : in) out.push_back(gelu(value));
        return out;
    };
    expect_gradient(activate, Numbers<double>(z.size(), 1.0), z, derivative, "gelu'", z.size());
}

TEST(LinearEdgeTest, GeluOfLargeValuesStaysFinite) {
    const Floats x = {-1e4f, -200.0f, -12.0f, 12.0f, 200.0f, 1e4f};
    GuardedBuffer<float> in(Shape{6, 1}, x), w(Shape{1, 1}, Floats{1.0f}), y(Shape{6, 1}), pre(Shape{6, 1});
    GuardedBuffer<float> dy(Shape{6, 1}, Floats(6, 1.0f)), dx(Shape{6, 1});
    const Runner runner;
    cpu_ops().linear_forward(runner, y.view(), pre.view(), in.view(), w.view(), TensorView(), TensorView(),
                             Epilogue::gelu);
    cpu_ops().linear_backward_input(runner, dx.view(), dy.view(), w.view(), TensorView(), pre.view(),
                                    Epilogue::gelu, Accumulate::overwrite);
    for (std::int64_t i = 0; i < 6; ++i) {
        EXPECT_NEAR(y[i], x[static_cast<std::size_t>(i)] > 0 ? x[static_cast<std::size_t>(i)] : 0.0f, 1e-20);
        EXPECT_NEAR(dx[i], x[static_cast<std::size_t>(i)] > 0 ? 1.0f : 0.0f, 1e-20);
    }
}

TEST(LinearEdgeTest, RefusesShapesThatDisagree) {
    GuardedBuffer<float> x(Shape{2, 3}), w(Shape{4, 5}), y(Shape{2, 4});
    EXPECT_THROW(cpu_ops().linear_forward(Runner(), y.view(), TensorView(), x.view(), w.view(), TensorView(),
                                          TensorView(), Epilogue::none),
                 InternalError);
    GuardedBuffer<int> ids(Shape{2, 3});
    GuardedBuffer<float> fitting(Shape{4, 3});
    EXPECT_THROW(cpu_ops().linear_forward(Runner(), y.view(), TensorView(), ids.view(), fitting.view(),
                                          TensorView(), TensorView(), Epilogue::none),
                 InternalError);
}

}  // namespace
}  // namespace escalier::kernels::test
