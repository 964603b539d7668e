// RoPE and the norms of query and key heads.
#include <numbers>

#include "heads_reference.h"

namespace escalier::kernels::test {
namespace {

using Size = QkvSize;

class HeadsTest : public testing::TestWithParam<Size> {
 protected:
    const Size s = GetParam();
    const Floats qkv = random_floats(s.rows() * s.columns(), 1);
};

TEST_P(HeadsTest, RopeRotatesForwardAndBack) {
    if (s.head_size % 2 != 0) return;  // rotation pairs channels
    for (const bool forward : {true, false}) {
        const auto run = [&](const OpContext& context) {
            GuardedBuffer<float> data(s.qkv(), qkv), table(Shape{s.sequence, s.head_size});
            cpu_ops().rope_table(context, table.view(), 500.0, {});
            (forward ? cpu_ops().rope_forward : cpu_ops().rope_backward)(context, data.view(), table.view(),
                                                                         s.heads, s.kv_heads, s.sequence);
            return data.values();
        };
        expect_near(run(Runner()), rotated(s, qkv, 500.0, forward ? 1.0 : -1.0), "rotated");
        expect_thread_invariant(run);
    }
}

class QkNormTest : public HeadsTest {
 protected:
    const Floats wq = random_floats(s.head_size, 2), wk = random_floats(s.head_size, 3);
    const Floats dout = random_floats(s.rows() * s.columns(), 4);

    struct Outputs {
        Floats out, rstd, dqkv, dwq, dwk;
    };
    Outputs run(const OpContext& context, Accumulate accumulate, float start = 0.0f) const {
        GuardedBuffer<float> in(s.qkv(), qkv), out(s.qkv()), rstd(Shape{s.rows(), s.heads + s.kv_heads});
        GuardedBuffer<float> query_weight(Shape{s.head_size}, wq), key_weight(Shape{s.head_size}, wk);
        GuardedBuffer<float> gradient(s.qkv(), dout), dwq(Shape{s.head_size}), dwk(Shape{s.head_size});
        if (accumulate == Accumulate::add) {
            std::fill(dwq.begin(), dwq.end(), start);
            std::fill(dwk.begin(), dwk.end(), start);
        }
        cpu_ops().qk_norm_forward(context, out.view(), rstd.view(), in.view(), query_weight.view(),
                                  key_weight.view(), s.heads, s.kv_heads, qk_norm_eps);
        cpu_ops().qk_norm_backward(context, gradient.view(), dwq.view(), dwk.view(), in.view(), rstd.view(),
                                   query_weight.view(), key_weight.view(), s.heads, s.kv_heads, accumulate);
        return {out.values(), rstd.values(), gradient.values(), dwq.values(), dwk.values()};
    }
};

TEST_P(QkNormTest, MatchesReference) {
    const Numbers<Tracked> x = numbers<Tracked>(qkv), q = numbers<Tracked>(wq), k = numbers<Tracked>(wk);
    Numbers<Tracked> rstds;
    const Numbers<Tracked> out = qk_norm_reference(s, x, q, k, &rstds);
    const QkGradients gradients = qk_gradients(s, x, q, k, numbers<Tracked>(dout));
    const Outputs actual = run(Runner(), Accumulate::overwrite);
    expect_near(actual.out, out, "out");
    expect_near(actual.rstd, rstds, "rstd");
    expect_near(actual.dqkv, gradients.dqkv, "dqkv");
    expect_near(actual.dwq, gradients.dwq, "dquery_weight");
    expect_near(actual.dwk, gradients.dwk, "dkey_weight");
}

TEST_P(QkNormTest, AccumulateAdds) {
    const Outputs once = run(Runner(), Accumulate::overwrite);
    expect_same_bits(once.dwq, run(Runner(), Accumulate::add).dwq, "dquery_weight");
    const Outputs onto_two = run(Runner(), Accumulate::add, 2.0f);
    for (std::size_t i = 0; i < wq.size(); ++i) {
        EXPECT_EQ(onto_two.dwq[i], 2.0f + once.dwq[i]);
        EXPECT_EQ(onto_two.dwk[i], 2.0f + once.dwk[i]);
    }
}

TEST_P(QkNormTest, ReferenceGradientIsTheDerivative) {
    const Numbers<double> x = numbers<double>(qkv), q = numbers<double>(wq), k = numbers<double>(wk);
    const QkGradients g = qk_gradients(s, numbers<Tracked>(qkv), numbers<Tracked>(wq), numbers<Tracked>(wk),
                                       numbers<Tracked>(dout));
    const Numbers<double> weights = numbers<double>(dout);
    if (s.head_size >
        1)  // of a single channel only the sign is left, which has no derivative at the scale of h
        expect_gradient([&](const auto& in) { return qk_norm_reference<double>(s, in, q, k); }, weights, x,
                        values_of(g.dqkv), "dqkv");
    expect_gradient([&](const auto& in) { return qk_norm_reference<double>(s, x, in, k); }, weights, q,
                    values_of(g.dwq), "dquery_weight");
    expect_gradient([&](const auto& in) { return qk_norm_reference<double>(s, x, q, in); }, weights, k,
                    values_of(g.dwk), "dkey_weight");
}

TEST_P(QkNormTest, DoesNotDependOnThreads) {
    expect_thread_invariant([&](const OpContext& context) {
        const Outputs out = run(context, Accumulate::overwrite);
        Floats all = out.out;
        for (const Floats* part : {&out.rstd, &out.dqkv, &out.dwq, &out.dwk}) append(all, *part);
        return all;
    });
}

const auto sizes =
    testing::Values(Size{1, 1, 1, 1, 2}, Size{2, 3, 3, 1, 5}, Size{2, 17, 2, 2, 16}, Size{1, 65, 4, 2, 32},
                    Size{1, 19, 2, 1, 64}, Size{1, 9, 3, 3, 80}, Size{2, 40, 4, 2, 128});
INSTANTIATE_TEST_SUITE_P(Sizes, HeadsTest, sizes);
INSTANTIATE_TEST_SUITE_P(Sizes, QkNormTest, sizes);

TEST(RopeTableTest, StretchesLongWavelengthsAsLlama3) {
    const std::int64_t positions = 5, size = 128;
    const double theta = 500000.0;
    const RopeScalingParameters scaling = {8.0, 1.0, 4.0, 8192.0};
    GuardedBuffer<float> table(Shape{positions, size});
    cpu_ops().rope_table(Runner(), table.view(), theta, scaling);
    int kept = 0, between = 0, stretched = 0;
    for (std::int64_t m = 0; m < size / 2; ++m) {
        const double frequency = std::pow(theta, -2.0 * static_cast<double>(m) / 128.0);
        const double wavelength = 2 * std::numbers::pi / frequency;
        double expected = frequency;
        if (wavelength > 8192.0) {
            expected = frequency / 8;
            ++stretched;
        } else if (wavelength >= 2048.0) {
            const double smooth = (8192.0 / wavelength - 1) / 3;
            expected = frequency * ((1 - smooth) / 8 + smooth);
            ++between;
        } else {
            ++kept;
        }
        for (std::int64_t t = 0; t < positions; ++t) {
            EXPECT_NEAR(table[t * size + m], std::cos(static_cast<double>(t) * expected), 1e-7);
            EXPECT_NEAR(table[t * size + size / 2 + m], std::sin(static_cast<double>(t) * expected), 1e-7);
        }
    }
    EXPECT_GT(kept, 0);
    EXPECT_GT(between, 0);
    EXPECT_GT(stretched, 0);
}

}  // namespace
}  // namespace escalier::kernels::test
