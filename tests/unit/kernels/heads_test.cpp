// RoPE and the norms of query and key heads.
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

struct RopeValue {
    std::int64_t position, m;
    float cosine, sine;
};

// Within an ulp of what PyTorch 1.13 computes as transformers does.
void expect_rope_values(std::int64_t size, double theta, const RopeScalingParameters& scaling,
                        const std::vector<RopeValue>& values) {
    GuardedBuffer<float> table(Shape{8192, size});
    cpu_ops().rope_table(Runner(), table.view(), theta, scaling);
    for (const RopeValue& value : values) {
        EXPECT_NEAR(table[value.position * size + value.m], value.cosine, 6e-8)
            << value.position << " " << value.m;
        EXPECT_NEAR(table[value.position * size + size / 2 + value.m], value.sine, 6e-8)
            << value.position << " " << value.m;
    }
}

TEST(RopeTableTest, FarPositionsHaveTheAnglesOfPyTorch) {
    expect_rope_values(64, 10000.0, {},
                       {{1023, 0, 0.400068194f, -0.916485369f},
                        {1023, 1, 0.829168797f, 0.558998287f},
                        {1023, 7, -0.23773171f, -0.971330881f},
                        {1000, 31, 0.991121769f, 0.132957265f}});
}

// Of 64 frequencies the first 29 are kept, those from the 35th on divided by 8, those between interpolated.
TEST(RopeTableTest, StretchesLongWavelengthsAsLlama3) {
    expect_rope_values(128, 500000.0, {8.0, 1.0, 4.0, 8192.0},
                       {{8191, 0, -0.646390498f, -0.763006806f},
                        {8191, 1, 0.977398813f, -0.211403862f},
                        {8191, 20, -0.848267138f, -0.529568493f},
                        {4097, 28, 0.830426455f, 0.55712831f},
                        {8191, 30, 0.2392627f, -0.970954895f},
                        {8191, 33, -0.836287737f, 0.548290789f},
                        {8191, 63, 0.999996841f, 0.00251375465f}});
}

}  // namespace
}  // namespace escalier::kernels::test
