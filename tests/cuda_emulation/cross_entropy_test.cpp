// CUDA cross-entropy against the reference.
#include "cuda_fixture.h"
#include "kernels/common/cuda_twins.h"
#include "tests/unit/kernels/cross_entropy_reference.h"

namespace escalier::kernels::test {
namespace {

class CudaCrossEntropyTest : public testing::TestWithParam<std::tuple<DType, VocabularyCut>> {
 protected:
    const DType dtype = std::get<0>(GetParam());
    const VocabularyCut s = std::get<1>(GetParam());
    const float scale = 0.37f;
    const Floats logits = stored(dtype, random_floats(s.rows* s.padded, 1, 4.0f));
    const std::vector<int> targets = some_targets(s);

    std::size_t whole(std::int64_t rank, std::int64_t i) const {  // element i of a rank's shard
        const std::int64_t columns = s.columns();
        return static_cast<std::size_t>(i / columns * s.padded + rank * columns + i % columns);
    }
    struct Outputs {
        Floats losses, dlogits;  // dlogits put together over ranks
        Floats all() const {
            Floats out = losses;
            append(out, dlogits);
            return out;
        }
    };
    // Each rank's columns in turn, as tensor ranks would; losses must come out the same on every rank.
    Outputs run(bool gradient) const {
        const Shape shape{s.rows, s.columns()};
        const DeviceTensor ids(Shape{s.rows}, targets), scale_at(DType::f32, {1}, Floats{scale});
        const DeviceTensor statistics(DType::f32, Shape{s.ranks, s.rows, 3});
        std::vector<std::unique_ptr<DeviceTensor>> shards;
        const CudaRunner runner;
        for (std::int64_t rank = 0; rank < s.ranks; ++rank) {
            Floats own(static_cast<std::size_t>(shape.elements()));
            for (std::int64_t i = 0; i < shape.elements(); ++i)
                own[static_cast<std::size_t>(i)] = logits[whole(rank, i)];
            shards.push_back(std::make_unique<DeviceTensor>(dtype, shape, own));
            cuda::cross_entropy_statistics(runner, statistics.view().rows(rank, 1), shards.back()->view(),
                                           ids.view(), rank * s.columns(), s.valid(rank));
        }
        Outputs out{{}, Floats(logits.size())};
        for (std::int64_t rank = 0; rank < s.ranks; ++rank) {
            const DeviceTensor losses(DType::f32, Shape{s.rows});
            const DeviceTensor& shard = *shards[static_cast<std::size_t>(rank)];
            cuda::cross_entropy_finish(runner, losses.view(), shard.view(), statistics.view(), ids.view(),
                                       rank * s.columns(), s.valid(rank),
                                       gradient ? scale_at.view().as<float>() : nullptr, gradient);
            if (rank > 0) expect_same_bits(out.losses, losses.values(), "losses of another rank");
            out.losses = losses.values();
            const Floats own = shard.values();
            for (std::int64_t i = 0; i < shape.elements(); ++i)
                out.dlogits[whole(rank, i)] = own[static_cast<std::size_t>(i)];
        }
        return out;
    }
};

TEST_P(CudaCrossEntropyTest, MatchesReference) {
    const Outputs out = run(true);
    expect_near(out.losses, losses_reference(s, numbers<Tracked>(logits), targets), "losses");
    expect_near(out.dlogits, StorageRounding{dtype}(losses_gradient(s, logits, targets, scale)), "dlogits");
}

TEST_P(CudaCrossEntropyTest, PaddingAndRowsWithoutTargetGetExactZero) {
    const Outputs out = run(true);
    for (std::int64_t i = 0; i < s.rows * s.padded; ++i) {
        if (i % s.padded >= s.vocabulary || targets[static_cast<std::size_t>(i / s.padded)] < 0) {
            ASSERT_EQ(out.dlogits[static_cast<std::size_t>(i)], 0.0f) << i;
        }
    }
}

TEST_P(CudaCrossEntropyTest, WithoutGradientLogitsStay) {
    expect_same_bits(run(false).dlogits, logits, "logits");
}

TEST_P(CudaCrossEntropyTest, SameBitsInAnyOrder) {
    expect_same_bits_in_any_order([&] { return run(true).all(); });
}

// The fourth: more than one round of a block over a row. The last: ranks with padding alone.
INSTANTIATE_TEST_SUITE_P(
    Sizes, CudaCrossEntropyTest,
    testing::Combine(testing::Values(DType::f32, DType::bf16),
                     testing::Values(VocabularyCut{1, 1, 1, 1}, VocabularyCut{3, 17, 20, 1},
                                     VocabularyCut{17, 65, 68, 2}, VocabularyCut{4, 20000, 20480, 1},
                                     VocabularyCut{9, 257, 384, 3}, VocabularyCut{15, 5001, 5120, 2},
                                     VocabularyCut{4, 10, 64, 4})),
    [](const auto& info) {
        const VocabularyCut s = std::get<1>(info.param);
        return std::string(name_of(std::get<0>(info.param))) + "_" + std::to_string(s.rows) + "x" +
               std::to_string(s.vocabulary) + "_on_" + std::to_string(s.ranks);
    });

Floats statistics_of(const Floats& row, std::int64_t valid, std::int64_t vocab_begin, int target) {
    const DeviceTensor logits(DType::f32, Shape{1, static_cast<std::int64_t>(row.size())}, row);
    const DeviceTensor targets(Shape{1}, std::vector<int>{target}), statistics(DType::f32, Shape{1, 3});
    cuda::cross_entropy_statistics(CudaRunner(), statistics.view(), logits.view(), targets.view(),
                                   vocab_begin, valid);
    return statistics.values();
}

TEST(CudaCrossEntropyEdgeTest, RankWithPaddingAloneReportsNothing) {
    EXPECT_EQ(statistics_of({1, 2, 3, 4}, -4, 8, 2),
              (Floats{-std::numeric_limits<float>::infinity(), 0.0f, 0.0f}));
}

TEST(CudaCrossEntropyEdgeTest, NanInALogitReachesTheLoss) {
    for (const std::size_t place : {0u, 7u, 19u}) {
        Floats row(20, 1.0f);
        row[place] = std::numeric_limits<float>::quiet_NaN();
        const DeviceTensor statistics(DType::f32, Shape{1, 1, 3}, statistics_of(row, 20, 0, 2));
        const DeviceTensor logits(DType::f32, Shape{1, 20}, row), losses(DType::f32, Shape{1});
        const DeviceTensor targets(Shape{1}, std::vector<int>{2}), scale(DType::f32, {1}, Floats{1.0f});
        cuda::cross_entropy_finish(CudaRunner(), losses.view(), logits.view(), statistics.view(),
                                   targets.view(), 0, 20, scale.view().as<float>(), true);
        EXPECT_TRUE(std::isnan(losses.values()[0])) << place;
    }
}

TEST(CudaSumLossesTest, AddsInDouble) {
    for (const std::int64_t n : {1, 3, 1024, 5001}) {
        const Floats losses = random_floats(n, 1, 3.0f);
        double expected = 0;
        for (const float loss : losses) expected += loss;
        const DeviceTensor in(DType::f32, Shape{n}, losses), sum(DType::f64, Shape{1});
        const auto run = [&] {
            cuda::sum_losses(CudaRunner(), sum.view(), in.view(), Accumulate::overwrite);
            cuda::sum_losses(CudaRunner(), sum.view(), in.view(), Accumulate::add);
            return sum.elements<double>()[0];
        };
        const double out = run();
        EXPECT_NEAR(out, 2 * expected, 1e-9 * static_cast<double>(n));
        cuda_emulation::set_seed(3);
        EXPECT_EQ(out, run());
        cuda_emulation::set_seed(0);
    }
}

}  // namespace
}  // namespace escalier::kernels::test
