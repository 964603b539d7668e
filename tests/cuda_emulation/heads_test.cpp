// CUDA RoPE and norms of query and key heads against the reference.
#include "cuda_fixture.h"
#include "kernels/common/cuda_twins.h"
#include "kernels/qk_norm_scratch.h"
#include "tests/unit/kernels/heads_reference.h"

namespace escalier::kernels::test {
namespace {

using Case = std::tuple<DType, QkvSize>;

class CudaHeadsTest : public testing::TestWithParam<Case> {
 protected:
    const DType dtype = std::get<0>(GetParam());
    const QkvSize s = std::get<1>(GetParam());
    const StorageRounding round{dtype};
    const Floats qkv = stored(dtype, random_floats(s.rows() * s.columns(), 1));
};

class CudaRopeTest : public CudaHeadsTest {
 protected:
    Floats run(bool forward) const {
        const CudaRunner runner;
        const DeviceTensor data(dtype, s.qkv(), qkv), table(DType::f32, Shape{s.sequence, s.head_size});
        cuda::rope_table(runner, table.view(), 500.0, {});
        (forward ? cuda::rope_forward : cuda::rope_backward)(runner, data.view(), table.view(), s.heads,
                                                             s.kv_heads, s.sequence);
        return data.values();
    }
};

TEST_P(CudaRopeTest, RotatesForwardAndBack) {
    for (const bool forward : {true, false}) {
        Numbers<Tracked> expected = rotated(s, qkv, 500.0, forward ? 1.0 : -1.0);
        const auto rotated_columns = static_cast<std::size_t>((s.heads + s.kv_heads) * s.head_size);
        for (std::size_t i = 0; i < expected.size(); ++i)
            if (i % static_cast<std::size_t>(s.columns()) < rotated_columns) expected[i] = round(expected[i]);
        GuardedBuffer<float> data(s.qkv(), qkv), table(Shape{s.sequence, s.head_size});
        cpu_ops().rope_table(Runner(), table.view(), 500.0, {});
        (forward ? cpu_ops().rope_forward : cpu_ops().rope_backward)(Runner(), data.view(), table.view(),
                                                                     s.heads, s.kv_heads, s.sequence);
        expect_near_both(run(forward), data.values(), expected, "rotated");
        expect_same_bits_in_any_order([&] { return run(forward); });
    }
}

class CudaQkNormTest : public CudaHeadsTest {
 protected:
    const Floats wq = random_floats(s.head_size, 2), wk = random_floats(s.head_size, 3);
    const Floats dout = stored(dtype, random_floats(s.rows() * s.columns(), 4));

    struct Outputs {
        Floats out, rstd, dqkv, dwq, dwk;
        Floats all() const {
            Floats joined = out;
            for (const Floats* part : {&rstd, &dqkv, &dwq, &dwk}) append(joined, *part);
            return joined;
        }
    };
    Outputs run(Accumulate accumulate, float start = 0.0f) const {
        const CudaRunner runner(cuda::qk_norm_scratch_bytes(s.rows(), s.head_size));
        const Shape gain{s.head_size};
        const Floats before(wq.size(), start);
        const DeviceTensor in(dtype, s.qkv(), qkv), out(dtype, s.qkv());
        const DeviceTensor rstd(DType::f32, Shape{s.rows(), s.heads + s.kv_heads});
        const DeviceTensor query_weight(DType::f32, gain, wq), key_weight(DType::f32, gain, wk);
        const DeviceTensor gradient(dtype, s.qkv(), dout), dwq(DType::f32, gain, before),
            dwk(DType::f32, gain, before);
        cuda::qk_norm_forward(runner, out.view(), rstd.view(), in.view(), query_weight.view(),
                              key_weight.view(), s.heads, s.kv_heads, qk_norm_eps);
        cuda::qk_norm_backward(runner, gradient.view(), dwq.view(), dwk.view(), in.view(), rstd.view(),
                               query_weight.view(), key_weight.view(), s.heads, s.kv_heads, accumulate);
        return {out.values(), rstd.values(), gradient.values(), dwq.values(), dwk.values()};
    }
    Outputs run_cpu() const {
        const Runner runner;
        GuardedBuffer<float> in(s.qkv(), qkv), out(s.qkv()), rstd(Shape{s.rows(), s.heads + s.kv_heads});
        GuardedBuffer<float> query_weight(Shape{s.head_size}, wq), key_weight(Shape{s.head_size}, wk);
        GuardedBuffer<float> gradient(s.qkv(), dout), dwq(Shape{s.head_size}), dwk(Shape{s.head_size});
        cpu_ops().qk_norm_forward(runner, out.view(), rstd.view(), in.view(), query_weight.view(),
                                  key_weight.view(), s.heads, s.kv_heads, qk_norm_eps);
        cpu_ops().qk_norm_backward(runner, gradient.view(), dwq.view(), dwk.view(), in.view(), rstd.view(),
                                   query_weight.view(), key_weight.view(), s.heads, s.kv_heads,
                                   Accumulate::overwrite);
        return {out.values(), rstd.values(), gradient.values(), dwq.values(), dwk.values()};
    }
};

TEST_P(CudaQkNormTest, MatchesReferenceAndCpuTwin) {
    const Numbers<Tracked> x = numbers<Tracked>(qkv), q = numbers<Tracked>(wq), k = numbers<Tracked>(wk);
    const Outputs actual = run(Accumulate::overwrite, NAN), twin = run_cpu();
    Numbers<Tracked> rstds;
    expect_near_both(actual.out, twin.out, round(qk_norm_reference(s, x, q, k, &rstds)), "out");
    expect_near_both(actual.rstd, twin.rstd, rstds, "rstd");
    const QkGradients expected = qk_gradients(s, x, q, k, numbers<Tracked>(dout));
    expect_near_both(actual.dqkv, twin.dqkv, round(expected.dqkv), "dqkv");
    expect_near_both(actual.dwq, twin.dwq, expected.dwq, "dquery_weight");
    expect_near_both(actual.dwk, twin.dwk, expected.dwk, "dkey_weight");
}

TEST_P(CudaQkNormTest, AccumulateAdds) {
    const Outputs once = run(Accumulate::overwrite), onto_two = run(Accumulate::add, 2.0f);
    for (std::size_t i = 0; i < wq.size(); ++i) {
        EXPECT_EQ(onto_two.dwq[i], 2.0f + once.dwq[i]);
        EXPECT_EQ(onto_two.dwk[i], 2.0f + once.dwk[i]);
    }
}

TEST_P(CudaQkNormTest, SameBitsInAnyOrder) {
    expect_same_bits_in_any_order([&] { return run(Accumulate::overwrite).all(); });
}

const auto sizes = testing::Values(
    QkvSize{1, 1, 1, 1, 2}, QkvSize{2, 17, 2, 2, 16}, QkvSize{1, 65, 4, 2, 32}, QkvSize{3, 40, 2, 1, 64},
    QkvSize{1, 9, 3, 3, 80}, QkvSize{2, 40, 4, 2, 128}, QkvSize{1, 5, 2, 1, 250}, QkvSize{1, 7, 2, 1, 256});
const auto name = [](const auto& info) {
    const QkvSize& s = std::get<1>(info.param);
    std::ostringstream out;
    out << name_of(std::get<0>(info.param)) << "_B" << s.batch << "_T" << s.sequence << "_NH" << s.heads
        << "_NKV" << s.kv_heads << "_HS" << s.head_size;
    return out.str();
};
INSTANTIATE_TEST_SUITE_P(Sizes, CudaRopeTest,
                         testing::Combine(testing::Values(DType::f32, DType::bf16), sizes), name);
INSTANTIATE_TEST_SUITE_P(Sizes, CudaQkNormTest,
                         testing::Combine(testing::Values(DType::f32, DType::bf16), sizes), name);

TEST(CudaRopeTableTest, StretchesLongWavelengthsLikeTheCpuTwin) {
    const Shape shape{8192, 128};
    const RopeScalingParameters scaling = {8.0, 1.0, 4.0, 8192.0};
    const DeviceTensor table(DType::f32, shape);
    cuda::rope_table(CudaRunner(), table.view(), 500000.0, scaling);
    GuardedBuffer<float> expected(shape);
    cpu_ops().rope_table(Runner(), expected.view(), 500000.0, scaling);
    expect_same_bits(table.values(), expected.values(), "table");
}

}  // namespace
}  // namespace escalier::kernels::test
