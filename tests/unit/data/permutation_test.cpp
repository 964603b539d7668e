#include "data/permutation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace escalier::data {
namespace {

TEST(Permutation, IsOneForEverySize) {
    for (std::int64_t size = 1; size < 300; ++size)
        for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
            const Permutation permutation(size, 99, epoch);
            std::vector<bool> seen(static_cast<std::size_t>(size), false);
            for (std::int64_t i = 0; i < size; ++i) {
                const std::int64_t image = permutation(i);
                ASSERT_GE(image, 0);
                ASSERT_LT(image, size);
                EXPECT_FALSE(seen[static_cast<std::size_t>(image)]);
                seen[static_cast<std::size_t>(image)] = true;
            }
        }
}

TEST(Permutation, IsOneForALargeSize) {
    constexpr std::int64_t size = 100'003;
    const Permutation permutation(size, 7, 5);
    std::vector<bool> seen(size, false);
    for (std::int64_t i = 0; i < size; ++i) seen[static_cast<std::size_t>(permutation(i))] = true;
    for (std::int64_t i = 0; i < size; ++i) ASSERT_TRUE(seen[static_cast<std::size_t>(i)]) << i;
}

TEST(Permutation, StaysInsideSizesBeyond32Bits) {
    for (const std::int64_t size : {(std::int64_t{1} << 40) + 12345, (std::int64_t{1} << 61) - 1}) {
        const Permutation permutation(size, 3, 1);
        for (std::int64_t i = 0; i < 1000; ++i) {
            const std::int64_t image = permutation(size - 1 - i);
            EXPECT_GE(image, 0);
            EXPECT_LT(image, size);
        }
    }
}

// Over many epochs every index goes to every place about equally often: chi-square over a 10 x 10 table,
// whose expectation is about 81 with a standard deviation of about 13. Fixed keys, so the outcome is fixed
// too.
TEST(Permutation, SpreadsEveryIndexOverAllPlaces) {
    for (std::uint64_t key : {1u, 2u, 3u}) {
        constexpr std::int64_t size = 10, epochs = 1000;
        std::vector<double> counts(size * size, 0.0);
        for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
            const Permutation permutation(size, key, epoch);
            for (std::int64_t i = 0; i < size; ++i)
                counts[static_cast<std::size_t>(i * size + permutation(i))] += 1;
        }
        double chi_square = 0;
        const double expected = static_cast<double>(epochs) / size;
        for (double count : counts) chi_square += (count - expected) * (count - expected) / expected;
        EXPECT_LT(chi_square, 81 + 5 * 13);
        EXPECT_GT(chi_square, 81 - 5 * 13);
    }
}

// Neighbours are torn apart: of a random permutation, about two of n pairs (i, i + 1) stay neighbours.
TEST(Permutation, TearsNeighboursApart) {
    constexpr std::int64_t size = 30'000;
    const Permutation permutation(size, 11, 0);
    std::int64_t neighbours = 0, ascents = 0;
    for (std::int64_t i = 0; i + 1 < size; ++i) {
        const std::int64_t a = permutation(i), b = permutation(i + 1);
        neighbours += std::abs(a - b) == 1;
        ascents += a < b;
    }
    EXPECT_LT(neighbours, 12);
    EXPECT_NEAR(static_cast<double>(ascents), size / 2.0, 5 * std::sqrt(size / 12.0));
}

}  // namespace
}  // namespace escalier::data
