#include "op_harness.h"

namespace escalier::kernels::test {
namespace {

struct Size {
    std::int64_t batch, sequence, columns, vocabulary, vocab_begin;
    std::int64_t rows() const { return batch * sequence; }
};
void PrintTo(const Size& s, std::ostream* out) {
    *out << s.batch << " x " << s.sequence << " x " << s.columns << ", " << s.vocabulary << " from "
         << s.vocab_begin;
}

class EmbeddingTest : public testing::TestWithParam<Size> {
 protected:
    const Size s = GetParam();
    const Floats table = random_floats(s.vocabulary * s.columns, 1),
                 dout = random_floats(s.rows() * s.columns, 2);
    // Ids on both sides of the rank's range, many of them repeated.
    std::vector<int> tokens() const {
        std::mt19937 generator(3);
        std::uniform_int_distribution<int> uniform(0, static_cast<int>(s.vocab_begin + s.vocabulary + 3));
        std::vector<int> out(static_cast<std::size_t>(s.rows()));
        for (int& id : out) id = uniform(generator);
        return out;
    }
    Floats backward(const OpContext& context, Accumulate accumulate, const Floats& start) const {
        GuardedBuffer<int> ids(Shape{s.rows()}, tokens());
        GuardedBuffer<float> d(Shape{s.rows(), s.columns}, dout), dtable(Shape{s.vocabulary, s.columns});
        if (accumulate == Accumulate::add) std::copy(start.begin(), start.end(), dtable.begin());
        cpu_ops().embedding_backward(context, dtable.view(), ids.view(), d.view(), s.vocab_begin, accumulate);
        return dtable.values();
    }
    // The contract's order: ascending rows, in fp32.
    Floats added_to(Floats start) const {
        const std::vector<int> ids = tokens();
        for (std::int64_t row = 0; row < s.rows(); ++row) {
            const std::int64_t id = ids[static_cast<std::size_t>(row)] - s.vocab_begin;
            for (std::int64_t i = 0; i < s.columns && id >= 0 && id < s.vocabulary; ++i)
                start[static_cast<std::size_t>(id * s.columns + i)] +=
                    dout[static_cast<std::size_t>(row * s.columns + i)];
        }
        return start;
    }
};

TEST_P(EmbeddingTest, ForwardLooksUpOwnRowsAndZeroesOthers) {
    GuardedBuffer<int> ids(Shape{s.rows()}, tokens());
    GuardedBuffer<float> rows(Shape{s.vocabulary, s.columns}, table), out(Shape{s.rows(), s.columns});
    cpu_ops().embedding_forward(Runner(), out.view(), ids.view(), rows.view(), s.vocab_begin);
    for (std::int64_t row = 0; row < s.rows(); ++row) {
        const std::int64_t id = ids[row] - s.vocab_begin;
        for (std::int64_t i = 0; i < s.columns; ++i) {
            const float expected =
                id >= 0 && id < s.vocabulary ? table[static_cast<std::size_t>(id * s.columns + i)] : 0.0f;
            ASSERT_EQ(out[row * s.columns + i], expected) << "row " << row;
        }
    }
}

TEST_P(EmbeddingTest, BackwardAddsInRowOrder) {
    expect_same_bits(backward(Runner(), Accumulate::overwrite, {}), added_to(Floats(table.size(), 0.0f)),
                     "overwrite");
    expect_same_bits(backward(Runner(), Accumulate::add, table), added_to(table), "add");
    expect_thread_invariant(
        [&](const OpContext& context) { return backward(context, Accumulate::overwrite, {}); });
}

TEST_P(EmbeddingTest, PositionsAreAddedAndTheirGradientsSummed) {
    const std::int64_t places = s.sequence + 2;
    const Floats positions = random_floats(places * s.columns, 5);
    GuardedBuffer<float> x(Shape{s.rows(), s.columns}, dout), table_of(Shape{places, s.columns}, positions);
    cpu_ops().position_forward(Runner(), x.view(), table_of.view(), s.sequence);
    Floats sums(positions.size(), 0.0f), onto = positions;
    for (std::int64_t row = 0; row < s.rows(); ++row)
        for (std::int64_t i = 0; i < s.columns; ++i) {
            const auto at = static_cast<std::size_t>(row % s.sequence * s.columns + i);
            const float d = dout[static_cast<std::size_t>(row * s.columns + i)];
            ASSERT_EQ(x[row * s.columns + i], d + positions[at]);
            sums[at] += d;
            onto[at] += d;
        }
    GuardedBuffer<float> d(Shape{s.rows(), s.columns}, dout), fresh(Shape{places, s.columns});
    GuardedBuffer<float> added(Shape{places, s.columns}, positions);
    cpu_ops().position_backward(Runner(), fresh.view(), d.view(), s.sequence, Accumulate::overwrite);
    cpu_ops().position_backward(Runner(), added.view(), d.view(), s.sequence, Accumulate::add);
    expect_same_bits(fresh.values(), sums, "overwrite");
    expect_same_bits(added.values(), onto, "add");
}

INSTANTIATE_TEST_SUITE_P(Sizes, EmbeddingTest,
                         testing::Values(Size{1, 1, 1, 1, 0}, Size{3, 17, 3, 5, 0}, Size{2, 65, 65, 40, 7},
                                         Size{5, 40, 200, 300, 100}));

}  // namespace
}  // namespace escalier::kernels::test
