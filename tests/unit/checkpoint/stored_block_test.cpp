#include "checkpoint/stored_block.h"

#include <gtest/gtest.h>

#include <numeric>

namespace escalier::checkpoint {
namespace {

TEST(StoredBlock, TurnsABoxOfTheModelIntoTheOrientationOfTheFile) {
    EXPECT_EQ(stored_block({{2, 5}, {3, 7}}, false), (Block{2, 5, 3, 7}));
    EXPECT_EQ(stored_block({{2, 5}, {3, 7}}, true), (Block{5, 2, 7, 3}));
    EXPECT_EQ(stored_block({{4}, {6}}, false), (Block{0, 4, 1, 6}));
    EXPECT_EQ(stored_block({{4}, {6}}, true), (Block{0, 4, 1, 6}));
}

TEST(StoredBlock, IntersectsBlocks) {
    const Block block{2, 5, 3, 7};
    EXPECT_EQ(intersection(block, {0, 0, 3, 6}), (Block{2, 5, 1, 1}));
    EXPECT_EQ(intersection(block, {3, 6, 1, 2}), (Block{3, 6, 1, 2}));
    EXPECT_FALSE(intersection(block, {5, 5, 3, 7}));
    EXPECT_FALSE(intersection(block, {2, 12, 3, 7}));
}

// Extents around the tile of a transposition.
TEST(StoredBlock, ReadsEveryPartOfAMatrixEitherWayRound) {
    for (const std::int64_t rows : {1, 15, 16, 33})
        for (const std::int64_t columns : {1, 16, 17, 40}) {
            std::vector<float> matrix(static_cast<std::size_t>(rows * columns));
            std::iota(matrix.begin(), matrix.end(), 0.0f);
            const char* data = reinterpret_cast<const char*>(matrix.data());
            for (const Block& block :
                 {Block{0, 0, rows, columns},
                  Block{rows / 2, columns / 2, rows - rows / 2, columns - columns / 2}}) {
                std::vector<float> straight(static_cast<std::size_t>(block.elements())), turned = straight;
                read_block(data, "F32", columns, block, straight.data(), block.columns, 1);
                read_block(data, "F32", columns, block, turned.data(), 1, block.rows);
                for (std::int64_t i = 0; i < block.rows; ++i)
                    for (std::int64_t j = 0; j < block.columns; ++j) {
                        const auto wanted = static_cast<float>((block.row + i) * columns + block.column + j);
                        EXPECT_EQ(straight[static_cast<std::size_t>(i * block.columns + j)], wanted);
                        EXPECT_EQ(turned[static_cast<std::size_t>(j * block.rows + i)], wanted);
                    }
            }
        }
}

}  // namespace
}  // namespace escalier::checkpoint
