#include "core/rng.h"
#include "op_harness.h"

namespace escalier::kernels::test {
namespace {

struct Masked {
    Floats values;
    std::int64_t zeros() const { return std::count(values.begin(), values.end(), 0.0f); }
};

struct Key {
    std::uint64_t seed, site, first_sample;
    operator DropoutKey() const {
        return {seed, site, &first_sample};
    }  // NOLINT(google-explicit-constructor)
};

// Dropout of ones, so that the result is the scaled mask itself.
Masked mask(std::int64_t samples, std::int64_t sequence, std::int64_t columns, const Key& key, float p,
            int threads = 2) {
    const std::int64_t rows = samples * sequence;
    GuardedBuffer<float> x(Shape{rows, columns}, Floats(static_cast<std::size_t>(rows * columns), 1.0f));
    cpu_ops().dropout(Runner(threads), x.view(), TensorView(), key, p, sequence);
    return {x.values()};
}

TEST(DropoutTest, DropsTheRightShareAndScalesTheRest) {
    const float p = 0.3f;
    const Masked out = mask(4, 65, 97, {1, 2, 0}, p);
    const double n = static_cast<double>(out.values.size());
    EXPECT_NEAR(static_cast<double>(out.zeros()) / n, p, 5 * std::sqrt(p * (1 - p) / n));
    for (const float value : out.values) EXPECT_TRUE(value == 0.0f || value == 1.0f / (1.0f - p)) << value;
}

TEST(DropoutTest, MaskIsPhiloxOfSampleAndPosition) {
    const Key key = {11, 22, (std::uint64_t{1} << 32) + 5};
    const std::int64_t sequence = 3, columns = 150;
    const float p = 0.4f;
    const Masked out = mask(2, sequence, columns, key, p);
    const PhiloxBlock mixed = philox(key.seed, key.site, 0);
    for (std::int64_t i = 0; i < 2 * sequence * columns; ++i) {
        const std::int64_t row = i / columns, channel = i % columns;
        const auto sample = key.first_sample + static_cast<std::uint64_t>(row / sequence);
        const auto counter =
            static_cast<std::uint64_t>(row % sequence) << 32 | static_cast<std::uint64_t>(channel / 4);
        const PhiloxBlock bits = philox(std::uint64_t{mixed[0]} << 32 | mixed[1], sample, counter);
        const bool dropped = bits[static_cast<std::size_t>(channel % 4)] < static_cast<double>(p) * 0x1p32;
        ASSERT_EQ(out.values[static_cast<std::size_t>(i)] == 0.0f, dropped) << i;
    }
}

TEST(DropoutTest, ProbabilityZeroKeepsEverything) {
    EXPECT_EQ(mask(2, 3, 17, {1, 2, 0}, 0.0f).zeros(), 0);
}

TEST(DropoutTest, MaskBelongsToTheGlobalSample) {
    const std::int64_t sequence = 17, columns = 35;
    const Masked whole = mask(4, sequence, columns, {9, 5, 100}, 0.5f);
    for (const int first : {0, 1, 3}) {  // the same samples, cut into other micro-batches
        const Masked part = mask(1, sequence, columns, {9, 5, 100u + static_cast<unsigned>(first)}, 0.5f, 1);
        const auto begin = whole.values.begin() + first * sequence * columns;
        EXPECT_TRUE(std::equal(part.values.begin(), part.values.end(), begin)) << "sample " << first;
    }
}

TEST(DropoutTest, EveryPartOfTheKeyMatters) {
    const Masked base = mask(1, 8, 64, {1, 2, 3}, 0.5f);
    EXPECT_NE(base.values, mask(1, 8, 64, {7, 2, 3}, 0.5f).values);
    EXPECT_NE(base.values, mask(1, 8, 64, {1, 7, 3}, 0.5f).values);
    EXPECT_NE(base.values, mask(1, 8, 64, {1, 2, 7}, 0.5f).values);
    EXPECT_NE(Floats(base.values.begin(), base.values.begin() + 64),
              Floats(base.values.begin() + 64, base.values.begin() + 128))
        << "two positions share a mask";
}

TEST(DropoutTest, AddsBiasFirstAndIsItsOwnBackward) {
    const std::int64_t rows = 6, columns = 19;
    const Floats x = random_floats(rows * columns, 1), bias = random_floats(columns, 2);
    const Key key = {3, 4, 5};
    const float p = 0.25f;
    GuardedBuffer<float> out(Shape{rows, columns}, x), shift(Shape{columns}, bias),
        d(Shape{rows, columns}, x);
    cpu_ops().dropout(Runner(), out.view(), shift.view(), key, p, 3);
    cpu_ops().dropout(Runner(), d.view(), TensorView(), key, p, 3);
    const Masked ones = mask(2, 3, columns, key, p);
    for (std::int64_t i = 0; i < rows * columns; ++i) {
        const auto at = static_cast<std::size_t>(i);
        EXPECT_FLOAT_EQ(out[i], (x[at] + bias[static_cast<std::size_t>(i % columns)]) * ones.values[at]);
        EXPECT_FLOAT_EQ(d[i], x[at] * ones.values[at]);
    }
}

TEST(DropoutTest, DoesNotDependOnThreads) {
    expect_same_bits(mask(3, 70, 65, {1, 2, 3}, 0.1f, 1).values, mask(3, 70, 65, {1, 2, 3}, 0.1f, 3).values,
                     "mask");
}

TEST(DropoutTest, RefusesAProbabilityOfOne) {
    GuardedBuffer<float> x(Shape{1, 1}, Floats{1.0f});
    EXPECT_THROW(cpu_ops().dropout(Runner(), x.view(), TensorView(), Key{1, 2, 3}, 1.0f, 1), InternalError);
}

}  // namespace
}  // namespace escalier::kernels::test
