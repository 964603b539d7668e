#include "cross_entropy_reference.h"

namespace escalier::kernels::test {
namespace {

class CrossEntropyTest : public testing::TestWithParam<VocabularyCut> {
 protected:
    const VocabularyCut s = GetParam();
    const float scale = 0.37f;
    const Floats logits = random_floats(s.rows * s.padded, 1, 4.0f);
    std::vector<int> targets() const { return some_targets(s); }
    struct Outputs {
        Floats losses, dlogits;  // dlogits put together over ranks
    };
    // Each rank's columns in turn, as tensor ranks would; losses must come out the same on every rank.
    Outputs run(const OpContext& context, bool gradient) const {
        const std::int64_t columns = s.columns();
        GuardedBuffer<int> ids(Shape{s.rows}, targets());
        GuardedBuffer<float> statistics(Shape{s.ranks, s.rows, 3});
        std::vector<GuardedBuffer<float>> shards;
        for (std::int64_t rank = 0; rank < s.ranks; ++rank) {
            GuardedBuffer<float> shard(Shape{s.rows, columns});
            for (std::int64_t i = 0; i < s.rows * columns; ++i)
                shard[i] =
                    logits[static_cast<std::size_t>(i / columns * s.padded + rank * columns + i % columns)];
            cpu_ops().cross_entropy_statistics(context, statistics.view().rows(rank, 1), shard.view(),
                                               ids.view(), rank * columns, s.valid(rank));
            shards.push_back(std::move(shard));
        }
        Outputs out{{}, Floats(logits.size())};
        for (std::int64_t rank = 0; rank < s.ranks; ++rank) {
            GuardedBuffer<float> losses(Shape{s.rows});
            GuardedBuffer<float>& shard = shards[static_cast<std::size_t>(rank)];
            cpu_ops().cross_entropy_finish(context, losses.view(), shard.view(), statistics.view(),
                                           ids.view(), rank * columns, s.valid(rank), &scale, gradient);
            if (rank > 0) expect_same_bits(out.losses, losses.values(), "losses of another rank");
            out.losses = losses.values();
            for (std::int64_t i = 0; i < s.rows * columns; ++i)
                out.dlogits[static_cast<std::size_t>(i / columns * s.padded + rank * columns + i % columns)] =
                    shard[i];
        }
        return out;
    }
    Numbers<Tracked> gradient() const { return losses_gradient(s, logits, targets(), scale); }
};

TEST_P(CrossEntropyTest, MatchesReference) {
    const Outputs out = run(Runner(), true);
    expect_near(out.losses, losses_reference(s, numbers<Tracked>(logits), targets()), "losses");
    expect_near(out.dlogits, gradient(), "dlogits");
}

TEST_P(CrossEntropyTest, PaddingAndRowsWithoutTargetGetExactZero) {
    const Outputs out = run(Runner(), true);
    for (std::int64_t i = 0; i < s.rows * s.padded; ++i) {
        if (i % s.padded >= s.vocabulary || targets()[static_cast<std::size_t>(i / s.padded)] < 0) {
            ASSERT_EQ(out.dlogits[static_cast<std::size_t>(i)], 0.0f) << i;
        }
    }
}

TEST_P(CrossEntropyTest, WithoutGradientLogitsStay) {
    expect_same_bits(run(Runner(), false).dlogits, logits, "logits");
}

TEST_P(CrossEntropyTest, ReferenceGradientIsTheDerivative) {
    expect_gradient([&](const Numbers<double>& in) { return losses_reference(s, in, targets()); },
                    Numbers<double>(static_cast<std::size_t>(s.rows), scale), numbers<double>(logits),
                    values_of(gradient()), "dlogits");
}

TEST_P(CrossEntropyTest, DoesNotDependOnThreads) {
    expect_thread_invariant([&](const OpContext& context) {
        const Outputs out = run(context, true);
        Floats all = out.losses;
        append(all, out.dlogits);
        return all;
    });
}

INSTANTIATE_TEST_SUITE_P(Sizes, CrossEntropyTest,
                         testing::Values(VocabularyCut{1, 1, 1, 1}, VocabularyCut{3, 17, 20, 1},
                                         VocabularyCut{17, 65, 68, 2}, VocabularyCut{9, 257, 384, 3},
                                         VocabularyCut{65, 5000, 5120, 2},
                                         VocabularyCut{4, 10, 64, 4}));  // the last: ranks with padding alone

TEST(CrossEntropyEdgeTest, RankWithPaddingAloneReportsNothing) {
    GuardedBuffer<float> logits(Shape{1, 4}, Floats{1, 2, 3, 4}), statistics(Shape{1, 3});
    GuardedBuffer<int> targets(Shape{1}, std::vector<int>{2});
    cpu_ops().cross_entropy_statistics(Runner(), statistics.view(), logits.view(), targets.view(), 8, -4);
    EXPECT_EQ(statistics[0], -std::numeric_limits<float>::infinity());
    EXPECT_EQ(statistics[1], 0.0f);
    EXPECT_EQ(statistics[2], 0.0f);
}

TEST(CrossEntropyEdgeTest, NanInALogitReachesTheLoss) {
    GuardedBuffer<float> logits(Shape{1, 20}, Floats(20, 1.0f)), statistics(Shape{1, 1, 3}), losses(Shape{1});
    logits[7] = std::numeric_limits<float>::quiet_NaN();
    GuardedBuffer<int> targets(Shape{1}, std::vector<int>{2});
    cpu_ops().cross_entropy_statistics(Runner(), statistics.view(), logits.view(), targets.view(), 0, 20);
    cpu_ops().cross_entropy_finish(Runner(), losses.view(), logits.view(), statistics.view(), targets.view(),
                                   0, 20, &losses[0], false);
    EXPECT_TRUE(std::isnan(losses[0]));
}

TEST(SumLossesTest, AddsInRowOrderInDouble) {
    const Floats values = {1e8f, 0.1f, -1e8f, 0.2f};
    GuardedBuffer<float> losses(Shape{4}, values);
    GuardedBuffer<double> sum(Shape{1}, {7});
    double expected = 0;
    for (const float loss : values) expected += loss;
    cpu_ops().sum_losses(Runner(), sum.view(), losses.view(), Accumulate::overwrite);
    EXPECT_EQ(sum[0], expected);
    for (const float loss : values) expected += loss;
    cpu_ops().sum_losses(Runner(), sum.view(), losses.view(), Accumulate::add);
    EXPECT_EQ(sum[0], expected);
}

}  // namespace
}  // namespace escalier::kernels::test
