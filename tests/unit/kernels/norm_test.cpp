#include <tuple>

#include "norm_reference.h"

namespace escalier::kernels::test {
namespace {

struct Case {
    std::int64_t rows, columns;
    bool centre;
    Floats x, weight, bias, dy, dresidual, delta, delta_bias;

    explicit Case(const std::tuple<std::int64_t, std::int64_t, bool>& size)
        : rows(std::get<0>(size)), columns(std::get<1>(size)), centre(std::get<2>(size)) {
        x = random_floats(rows * columns, 1, 2.0f);
        for (float& value : x) value += 0.5f;
        weight = random_floats(columns, 2);
        bias = random_floats(columns, 3);
        dy = random_floats(rows * columns, 4);
        dresidual = random_floats(rows * columns, 5);
        delta = random_floats(rows * columns, 6);
        delta_bias = random_floats(columns, 7);
    }
    Shape matrix() const { return {rows, columns}; }
    template <class T>
    NormInputs<T> inputs() const {
        return {rows, columns, numbers<T>(x), numbers<T>(weight), numbers<T>(bias)};
    }
};

struct Forward {
    GuardedBuffer<float> y, mean, rstd;
    explicit Forward(const Case& c) : y(c.matrix()), mean(Shape{c.rows}), rstd(Shape{c.rows}) {}
    Floats all(bool centre) {
        Floats out = y.values();
        append(out, rstd.values());
        if (centre) append(out, mean.values());
        return out;
    }
};

Forward run_forward(const OpContext& context, const Case& c, const Floats& x_values) {
    GuardedBuffer<float> x(c.matrix(), x_values), weight(Shape{c.columns}, c.weight),
        bias(Shape{c.columns}, c.bias);
    Forward out(c);
    if (c.centre)
        cpu_ops().layernorm_forward(context, out.y.view(), out.mean.view(), out.rstd.view(), x.view(),
                                    weight.view(), bias.view(), norm_eps);
    else
        cpu_ops().rmsnorm_forward(context, out.y.view(), out.rstd.view(), x.view(), weight.view(), norm_eps);
    return out;
}

struct Backward {
    Floats dx, dweight, dbias;
};

// With add, the gains' gradients start at `start`; with in_place, dx is the memory of dresidual.
Backward run_backward(const OpContext& context, const Case& c, Accumulate accumulate, float start,
                      bool residual, bool in_place) {
    Forward forward = run_forward(context, c, c.x);
    GuardedBuffer<float> x(c.matrix(), c.x), weight(Shape{c.columns}, c.weight), dy(c.matrix(), c.dy);
    GuardedBuffer<float> dresidual(c.matrix(), c.dresidual), dx(c.matrix());
    GuardedBuffer<float> dweight(Shape{c.columns}), dbias(Shape{c.columns});
    if (accumulate == Accumulate::add) {
        std::fill(dweight.begin(), dweight.end(), start);
        std::fill(dbias.begin(), dbias.end(), start);
    }
    GuardedBuffer<float>& out = in_place ? dresidual : dx;
    const TensorView past = residual ? dresidual.view() : TensorView();
    if (c.centre)
        cpu_ops().layernorm_backward(context, out.view(), dweight.view(), dbias.view(), past, dy.view(),
                                     x.view(), forward.mean.view(), forward.rstd.view(), weight.view(),
                                     accumulate);
    else
        cpu_ops().rmsnorm_backward(context, out.view(), dweight.view(), past, dy.view(), x.view(),
                                   forward.rstd.view(), weight.view(), accumulate);
    return {out.values(), dweight.values(), c.centre ? dbias.values() : Floats()};
}

class NormTest : public testing::TestWithParam<std::tuple<std::int64_t, std::int64_t, bool>> {};

TEST_P(NormTest, ForwardMatchesReference) {
    const Case c(GetParam());
    Numbers<Tracked> means, rstds;
    const Numbers<Tracked> y = norm_reference(c.inputs<Tracked>(), c.centre, &means, &rstds);
    Forward out = run_forward(Runner(), c, c.x);
    expect_near(out.y.values(), y, "y");
    expect_near(out.rstd.values(), rstds, "rstd");
    if (c.centre) expect_near(out.mean.values(), means, "mean");
}

TEST_P(NormTest, BackwardMatchesReference) {
    const Case c(GetParam());
    const NormGradients expected = norm_gradients(c.inputs<Tracked>(), numbers<Tracked>(c.dy), c.centre);
    const Backward out = run_backward(Runner(), c, Accumulate::overwrite, 0.0f, false, false);
    expect_near(out.dx, expected.dx, "dx");
    expect_near(out.dweight, expected.dweight, "dweight");
    if (c.centre) expect_near(out.dbias, expected.dbias, "dbias");
}

TEST_P(NormTest, BackwardAddsTheResidualGradient) {
    const Case c(GetParam());
    NormGradients expected = norm_gradients(c.inputs<Tracked>(), numbers<Tracked>(c.dy), c.centre);
    for (std::size_t i = 0; i < expected.dx.size(); ++i) expected.dx[i] += Tracked(c.dresidual[i]);
    const Backward out = run_backward(Runner(), c, Accumulate::overwrite, 0.0f, true, false);
    expect_near(out.dx, expected.dx, "dx");
    expect_same_bits(out.dx, run_backward(Runner(), c, Accumulate::overwrite, 0.0f, true, true).dx,
                     "in place");
}

TEST_P(NormTest, AccumulateAdds) {
    const Case c(GetParam());
    const Backward once = run_backward(Runner(), c, Accumulate::overwrite, 0.0f, false, false);
    const Backward onto_zero = run_backward(Runner(), c, Accumulate::add, 0.0f, false, false);
    expect_same_bits(once.dweight, onto_zero.dweight, "dweight");
    expect_same_bits(once.dbias, onto_zero.dbias, "dbias");
    Backward onto_three = run_backward(Runner(), c, Accumulate::add, 3.0f, false, false);
    for (std::size_t i = 0; i < once.dweight.size(); ++i)
        EXPECT_EQ(onto_three.dweight[i], 3.0f + once.dweight[i]);
}

TEST_P(NormTest, ReferenceGradientIsTheDerivative) {
    const Case c(GetParam());
    const NormGradients g = norm_gradients(c.inputs<Tracked>(), numbers<Tracked>(c.dy), c.centre);
    NormInputs<double> in = c.inputs<double>();
    const Numbers<double> dy = numbers<double>(c.dy);
    const auto by_x = [&](const Numbers<double>& x) {
        return norm_reference<double>({c.rows, c.columns, x, in.weight, in.bias}, c.centre);
    };
    const auto by_weight = [&](const Numbers<double>& w) {
        return norm_reference<double>({c.rows, c.columns, in.x, w, in.bias}, c.centre);
    };
    if (c.columns > 1) expect_gradient(by_x, dy, in.x, values_of(g.dx), "dx");  // curved at the scale of h
    expect_gradient(by_weight, dy, in.weight, values_of(g.dweight), "dweight");
}

TEST_P(NormTest, FusedResidualHasTheBitsOfTheTwoOps) {
    const Case c(GetParam());
    const Runner runner;
    for (const bool with_bias : {false, true}) {
        GuardedBuffer<float> residual(c.matrix(), c.x), delta(c.matrix(), c.delta), sum(c.matrix());
        GuardedBuffer<float> fused_sum(c.matrix()), delta_bias(Shape{c.columns}, c.delta_bias);
        GuardedBuffer<float> weight(Shape{c.columns}, c.weight), bias(Shape{c.columns}, c.bias);
        const TensorView extra = with_bias ? delta_bias.view() : TensorView();
        cpu_ops().residual_add(runner, sum.view(), residual.view(), delta.view(), extra);
        Forward apart = run_forward(runner, c, sum.values()), fused(c);
        if (c.centre)
            cpu_ops().residual_layernorm_forward(runner, fused_sum.view(), fused.y.view(), fused.mean.view(),
                                                 fused.rstd.view(), residual.view(), delta.view(), extra,
                                                 weight.view(), bias.view(), norm_eps);
        else
            cpu_ops().residual_rmsnorm_forward(runner, fused_sum.view(), fused.y.view(), fused.rstd.view(),
                                               residual.view(), delta.view(), extra, weight.view(), norm_eps);
        expect_same_bits(sum.values(), fused_sum.values(), "sum");
        expect_same_bits(apart.all(c.centre), fused.all(c.centre), "norm");
    }
}

TEST_P(NormTest, DoesNotDependOnThreads) {
    const Case c(GetParam());
    expect_thread_invariant([&](const OpContext& context) {
        Floats all = run_forward(context, c, c.x).all(c.centre);
        const Backward backward = run_backward(context, c, Accumulate::overwrite, 0.0f, true, false);
        for (const Floats* part : {&backward.dx, &backward.dweight, &backward.dbias}) append(all, *part);
        return all;
    });
}

INSTANTIATE_TEST_SUITE_P(Sizes, NormTest,
                         testing::Combine(testing::Values(1, 3, 17, 65, 257),
                                          testing::Values(1, 3, 16, 17, 65, 200), testing::Bool()));

}  // namespace
}  // namespace escalier::kernels::test
