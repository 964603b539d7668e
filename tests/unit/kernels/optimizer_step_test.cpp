#include "core/bfloat16.h"
#include "op_harness.h"

namespace escalier::kernels::test {
namespace {

class OptimizerStepTest : public testing::TestWithParam<std::int64_t> {
 protected:
    const std::int64_t n = GetParam();
    const Floats weight = random_floats(n, 1);

    Floats gradient(std::int64_t step) const { return random_floats(n, 100 + static_cast<unsigned>(step)); }
    static AdamwParameters adamw(std::int64_t step) { return {3e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.5f, step}; }

    struct State {
        Floats weight, m, v;
    };
    State run_adamw(const OpContext& context, std::int64_t steps) const {
        GuardedBuffer<float> w(Shape{n}, weight), m(Shape{n}), v(Shape{n});
        std::fill(m.begin(), m.end(), 0.0f);
        std::fill(v.begin(), v.end(), 0.0f);
        for (std::int64_t step = 1; step <= steps; ++step) {
            GuardedBuffer<float> g(Shape{n}, gradient(step));
            const OptimizerTensor tensor{w.view(), g.view(), m.view(), v.view(), {}, true};
            cpu_ops().adamw_step(context, {&tensor, 1}, adamw(step));
        }
        return {w.values(), m.values(), v.values()};
    }
};

TEST_P(OptimizerStepTest, AdamwFollowsThePaperOverSeveralSteps) {
    const std::int64_t steps = 4;
    Numbers<Tracked> w = numbers<Tracked>(weight), m(w.size()), v(w.size());
    for (std::int64_t step = 1; step <= steps; ++step) {
        const AdamwParameters p = adamw(step);
        const double beta1 = p.beta1, beta2 = p.beta2, lr = p.lr;
        const Tracked correction1(1 - std::pow(beta1, static_cast<double>(step)));
        const Tracked correction2(1 - std::pow(beta2, static_cast<double>(step)));
        const Floats gradients = gradient(step);
        for (std::size_t i = 0; i < w.size(); ++i) {
            const Tracked g = Tracked(gradients[i]) * Tracked(p.gradient_scale);
            m[i] = Tracked(beta1) * m[i] + Tracked(1 - beta1) * g;
            v[i] = Tracked(beta2) * v[i] + Tracked(1 - beta2) * g * g;
            const Tracked update = m[i] / correction1 / (sqrt(v[i] / correction2) + Tracked(p.eps));
            w[i] = w[i] * Tracked(1 - lr * p.weight_decay) - Tracked(lr) * update;
        }
    }
    const State out = run_adamw(Runner(), steps);
    expect_near(out.weight, w, "weight");
    expect_near(out.m, m, "m");
    expect_near(out.v, v, "v");
}

TEST_P(OptimizerStepTest, SgdDecaysAndDescends) {
    const SgdParameters p = {0.1f, 0.01f, 2.0f};
    const Floats gradients = gradient(1);
    GuardedBuffer<float> w(Shape{n}, weight), g(Shape{n}, gradients);
    const OptimizerTensor tensor{w.view(), g.view(), {}, {}, {}, true};
    cpu_ops().sgd_step(Runner(), {&tensor, 1}, p);
    Numbers<Tracked> expected = numbers<Tracked>(weight);
    for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i] = expected[i] - Tracked(p.lr) * (Tracked(gradients[i]) * Tracked(p.gradient_scale) +
                                                     Tracked(p.weight_decay) * expected[i]);
    expect_near(w.values(), expected, "weight");
}

TEST_P(OptimizerStepTest, DoesNotDependOnThreads) {
    expect_thread_invariant([&](const OpContext& context) {
        State state = run_adamw(context, 2);
        append(state.weight, state.m);
        append(state.weight, state.v);
        return state.weight;
    });
}

INSTANTIATE_TEST_SUITE_P(Sizes, OptimizerStepTest, testing::Values(1, 3, 17, 65, 16384, 50001));

TEST(AdamwEdgeTest, ZeroGradientOnlyDecaysWhatDecays) {
    GuardedBuffer<float> w(Shape{2}, Floats{1.0f, -2.0f}), bias(Shape{2}, Floats{1.0f, -2.0f});
    GuardedBuffer<float> zero(Shape{2}, Floats{0, 0}), m(Shape{2}, Floats{0, 0}), v(Shape{2}, Floats{0, 0});
    const OptimizerTensor tensors[] = {{w.view(), zero.view(), m.view(), v.view(), {}, true},
                                       {bias.view(), zero.view(), m.view(), v.view(), {}, false}};
    cpu_ops().adamw_step(Runner(), {tensors, 2}, {0.5f, 0.9f, 0.95f, 1e-8f, 0.5f, 1.0f, 1});
    EXPECT_EQ(w.values(), (Floats{0.75f, -1.5f}));
    EXPECT_EQ(bias.values(), (Floats{1.0f, -2.0f}));
}

TEST(OptimizerShadowTest, IsTheRoundedNewWeight) {
    const std::int64_t n = 37;
    for (const bool adamw : {true, false}) {
        GuardedBuffer<float> w(Shape{n}, random_floats(n, 1)), g(Shape{n}, random_floats(n, 2));
        GuardedBuffer<float> m(Shape{n}, Floats(37, 0.0f)), v(Shape{n}, Floats(37, 0.0f));
        GuardedBuffer<BFloat16> shadow(Shape{n});
        const OptimizerTensor tensor{w.view(), g.view(), m.view(), v.view(), shadow.view(), true};
        if (adamw)
            cpu_ops().adamw_step(Runner(), {&tensor, 1}, {0.5f, 0.9f, 0.95f, 1e-8f, 0.5f, 1.0f, 1});
        else
            cpu_ops().sgd_step(Runner(), {&tensor, 1}, {0.5f, 0.5f, 1.0f});
        for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(shadow[i].bits, to_bfloat16(w[i]).bits) << i;
    }
}

}  // namespace
}  // namespace escalier::kernels::test
