#include "attention_reference.h"

namespace escalier::kernels::test {
namespace {

using Size = QkvSize;

class AttentionTest : public testing::TestWithParam<Size> {
 protected:
    const Size s = GetParam();
    const Floats qkv = random_floats(s.rows() * s.columns(), 11);
    const Floats dout = random_floats(s.rows() * s.heads * s.head_size, 12);

    struct Outputs {
        Floats out, lse, dqkv;
    };
    Outputs run(const OpContext& context) const {
        GuardedBuffer<float> qkv_buffer(Shape{s.rows(), s.columns()}, qkv);
        GuardedBuffer<float> dqkv(Shape{s.rows(), s.columns()});
        GuardedBuffer<float> out(Shape{s.rows(), s.heads * s.head_size}),
            lse(Shape{s.batch, s.heads, s.sequence});
        GuardedBuffer<float> dout_buffer(Shape{s.rows(), s.heads * s.head_size}, dout);
        cpu_ops().attention_forward(context, out.view(), lse.view(), qkv_buffer.view(), s.batch, s.sequence,
                                    s.heads, s.kv_heads);
        cpu_ops().attention_backward(context, dqkv.view(), dout_buffer.view(), out.view(), lse.view(),
                                     qkv_buffer.view(), s.batch, s.sequence, s.heads, s.kv_heads);
        return {out.values(), lse.values(), dqkv.values()};
    }
};

TEST_P(AttentionTest, ForwardMatchesReference) {
    Numbers<Tracked> lse;
    const Numbers<Tracked> out = attention_reference(s, numbers<Tracked>(qkv), &lse);
    const Outputs actual = run(Runner());
    expect_near(actual.out, out, "out");
    expect_near(actual.lse, lse, "lse");
}

TEST_P(AttentionTest, BackwardMatchesReference) {
    expect_near(run(Runner()).dqkv, attention_gradient(s, numbers<Tracked>(qkv), numbers<Tracked>(dout)),
                "dqkv");
}

TEST_P(AttentionTest, ReferenceGradientIsTheDerivative) {
    const Numbers<Tracked> gradient = attention_gradient(s, numbers<Tracked>(qkv), numbers<Tracked>(dout));
    expect_gradient([&](const Numbers<double>& in) { return attention_reference(s, in); },
                    numbers<double>(dout), numbers<double>(qkv), values_of(gradient), "dqkv", 12);
}

TEST_P(AttentionTest, DoesNotDependOnThreads) {
    expect_thread_invariant([&](const OpContext& context) {
        const Outputs out = run(context);
        Floats all = out.out;
        append(all, out.lse);
        append(all, out.dqkv);
        return all;
    });
}

INSTANTIATE_TEST_SUITE_P(Sizes, AttentionTest,
                         testing::Values(Size{1, 1, 1, 1, 16}, Size{2, 3, 3, 1, 5}, Size{1, 17, 2, 2, 32},
                                         Size{2, 65, 4, 2, 16}, Size{1, 129, 3, 3, 7}, Size{1, 66, 2, 1, 64},
                                         Size{1, 70, 1, 1, 80}, Size{1, 33, 4, 2, 128}));

TEST(AttentionEdgeTest, LargeScoresStayFinite) {
    GuardedBuffer<float> qkv(Shape{40, 24}, random_floats(40 * 24, 1, 60.0f)), dqkv(Shape{40, 24});
    GuardedBuffer<float> out(Shape{40, 8}), lse(Shape{1, 1, 40}), dout(Shape{40, 8}, Floats(320, 1.0f));
    const Runner runner;
    cpu_ops().attention_forward(runner, out.view(), lse.view(), qkv.view(), 1, 40, 1, 1);
    cpu_ops().attention_backward(runner, dqkv.view(), dout.view(), out.view(), lse.view(), qkv.view(), 1, 40,
                                 1, 1);
    for (const float value : out.values()) EXPECT_TRUE(std::isfinite(value));
    for (const float value : dqkv.values()) EXPECT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace escalier::kernels::test
