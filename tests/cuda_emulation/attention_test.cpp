// CUDA attention, on tensor cores and without, against the reference and the CPU twin.
#include <set>

#include "cuda_fixture.h"
#include "kernels/attention_geometry.h"
#include "kernels/attention_scratch.h"
#include "kernels/common/cuda_twins.h"
#include "tests/unit/kernels/attention_reference.h"

namespace escalier::kernels::test {
namespace {

struct Case {
    DType dtype;
    QkvSize size;
};
void PrintTo(const Case& c, std::ostream* out) {
    *out << name_of(c.dtype) << ", ";
    PrintTo(c.size, out);
}

class CudaAttentionTest : public testing::TestWithParam<Case> {
 public:
    const DType dtype = GetParam().dtype;
    const QkvSize s = GetParam().size;
    const StorageRounding round{dtype};
    const Floats qkv = stored(dtype, random_floats(s.rows() * s.columns(), 11));
    const Floats dout = stored(dtype, random_floats(s.rows() * s.heads * s.head_size, 12));

    struct Outputs {
        Floats out, lse, dqkv;
        Floats all() const {
            Floats joined = out;
            append(joined, lse);
            append(joined, dqkv);
            return joined;
        }
    };
    Outputs run() const { return run_cuda(dtype, s, qkv, dout); }
    static Outputs run_cuda(DType dtype, const QkvSize& s, const Floats& qkv, const Floats& dout) {
        const CudaRunner runner(cuda::attention_scratch_bytes(s.batch, s.sequence, s.heads));
        const DeviceTensor in(dtype, s.qkv(), qkv), d(dtype, s.out(), dout);
        const DeviceTensor out(dtype, s.out()), lse(DType::f32, s.lse()), dqkv(dtype, s.qkv());
        cuda::attention_forward(runner, out.view(), lse.view(), in.view(), s.batch, s.sequence, s.heads,
                                s.kv_heads);
        cuda::attention_backward(runner, dqkv.view(), d.view(), out.view(), lse.view(), in.view(), s.batch,
                                 s.sequence, s.heads, s.kv_heads);
        return {out.values(), lse.values(), dqkv.values()};
    }
    Outputs run_cpu() const {
        const Runner runner;
        GuardedBuffer<float> in(s.qkv(), qkv), d(s.out(), dout), out(s.out()), lse(s.lse()), dqkv(s.qkv());
        cpu_ops().attention_forward(runner, out.view(), lse.view(), in.view(), s.batch, s.sequence, s.heads,
                                    s.kv_heads);
        cpu_ops().attention_backward(runner, dqkv.view(), d.view(), out.view(), lse.view(), in.view(),
                                     s.batch, s.sequence, s.heads, s.kv_heads);
        return {out.values(), lse.values(), dqkv.values()};
    }
};

TEST_P(CudaAttentionTest, MatchesReferenceAndCpuTwin) {
    const Outputs actual = run(), twin = run_cpu();
    Numbers<Tracked> lse;
    const Numbers<Tracked> out = attention_reference(s, numbers<Tracked>(qkv), &lse, round);
    expect_near_both(actual.out, twin.out, out, "out");
    expect_near_both(actual.lse, twin.lse, lse, "lse");
    expect_near_both(actual.dqkv, twin.dqkv,
                     attention_gradient(s, numbers<Tracked>(qkv), numbers<Tracked>(dout), round), "dqkv");
}

INSTANTIATE_TEST_SUITE_P(
    TensorCores, CudaAttentionTest,
    testing::Values(Case{DType::bf16, {1, 1, 1, 1, 64}}, Case{DType::bf16, {2, 7, 2, 1, 64}},
                    Case{DType::bf16, {1, 63, 4, 2, 64}}, Case{DType::bf16, {2, 64, 1, 1, 64}},
                    Case{DType::bf16, {1, 65, 4, 1, 64}}, Case{DType::bf16, {1, 130, 2, 2, 64}},
                    Case{DType::bf16, {1, 200, 4, 2, 64}}, Case{DType::bf16, {1, 1, 2, 2, 128}},
                    Case{DType::bf16, {2, 65, 2, 1, 128}}, Case{DType::bf16, {1, 130, 4, 2, 128}},
                    Case{DType::bf16, {1, 200, 1, 1, 128}}));
INSTANTIATE_TEST_SUITE_P(
    WithoutTensorCores, CudaAttentionTest,
    testing::Values(Case{DType::f32, {1, 1, 1, 1, 64}}, Case{DType::f32, {2, 7, 4, 2, 64}},
                    Case{DType::f32, {1, 65, 2, 1, 128}}, Case{DType::f32, {1, 130, 2, 2, 32}},
                    Case{DType::f32, {1, 33, 1, 1, 256}}, Case{DType::f32, {1, 200, 4, 1, 6}},
                    Case{DType::bf16, {2, 63, 2, 2, 80}}, Case{DType::bf16, {1, 64, 4, 1, 32}},
                    Case{DType::bf16, {1, 130, 2, 1, 2}}));

// Every launch of attention, with several tiles, blocks and heads of a group.
class CudaAttentionOrderTest : public CudaAttentionTest {};

TEST_P(CudaAttentionOrderTest, SameBitsInAnyOrder) {
    expect_same_bits_in_any_order([&] { return run().all(); });
}

INSTANTIATE_TEST_SUITE_P(Launches, CudaAttentionOrderTest,
                         testing::Values(Case{DType::bf16, {1, 130, 2, 1, 64}},
                                         Case{DType::bf16, {1, 130, 2, 1, 128}},
                                         Case{DType::bf16, {1, 67, 2, 1, 80}},
                                         Case{DType::f32, {2, 35, 2, 1, 64}}));

class CudaAttentionEdgeTest : public testing::TestWithParam<std::pair<DType, std::int64_t>> {};

TEST_P(CudaAttentionEdgeTest, LargeScoresStayFinite) {
    const auto [dtype, head_size] = GetParam();
    const QkvSize s{1, 140, 1, 1, head_size};
    const auto actual =
        CudaAttentionTest::run_cuda(dtype, s, random_floats(s.rows() * s.columns(), 1, 60.0f),
                                    Floats(static_cast<std::size_t>(s.rows() * head_size), 1.0f));
    for (const float element : actual.all()) ASSERT_TRUE(std::isfinite(element));
}

INSTANTIATE_TEST_SUITE_P(Kernels, CudaAttentionEdgeTest,
                         testing::Values(std::pair{DType::bf16, 64}, std::pair{DType::bf16, 128},
                                         std::pair{DType::f32, 8}));

// Sections keep what is read again in L2; the shapes of the other tests fit into one.
TEST(CudaAttentionBlocksTest, EveryBlockOnceLongestFirstInSections) {
    const std::int64_t sequence = 16384, heads = 7, kv_heads = 7, head_size = 128;
    const TensorView qkv(nullptr, DType::bf16, Shape{2 * sequence, (heads + 2 * kv_heads) * head_size});
    const cuda::AttentionGeometry g(qkv, 2, sequence, heads, kv_heads);
    const cuda::AttentionOrder order(g, g.heads, 4096);
    ASSERT_EQ(order.section, 2);  // of 8 MiB each
    std::set<std::pair<int, int>> seen;
    int section = 0, rank = 0;
    for (int index = 0; index < static_cast<int>(order.grid().x); ++index) {
        const cuda::AttentionOrder::Place place = order.place(index);
        EXPECT_TRUE(seen.insert({place.head, place.rank}).second) << index;
        EXPECT_GE(place.head / 2, section) << index;
        EXPECT_GE(place.rank, place.head / 2 > section ? 0 : rank) << index;
        section = place.head / 2;
        rank = place.rank;
    }
    EXPECT_EQ(seen.size(), 14u * 4u);
    EXPECT_EQ(seen.rbegin()->first, 13);
    EXPECT_EQ(seen.begin()->second, 0);
}

TEST(CudaAttentionRefusalTest, HeadsLargerThan256) {
    const DeviceTensor qkv(DType::f32, Shape{1, 3 * 258}), out(DType::f32, Shape{1, 258}),
        lse(DType::f32, Shape{1, 1, 1});
    EXPECT_THROW(cuda::attention_forward(CudaRunner(), out.view(), lse.view(), qkv.view(), 1, 1, 1, 1),
                 InternalError);
}

}  // namespace
}  // namespace escalier::kernels::test
