#include "core/edit_distance.h"

#include <gtest/gtest.h>

#include <string>

namespace escalier {
namespace {

TEST(EditDistance, KnownPairs) {
    EXPECT_EQ(edit_distance("", ""), 0);
    EXPECT_EQ(edit_distance("abc", ""), 3);
    EXPECT_EQ(edit_distance("", "abc"), 3);
    EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
    EXPECT_EQ(edit_distance("steps", "setps"), 1);  // one swap of neighbours
    EXPECT_EQ(edit_distance("ca", "abc"), 3);       // optimal string alignment
}

TEST(EditDistance, Within) {
    EXPECT_TRUE(is_within(3, "kitten", "sitting"));
    EXPECT_FALSE(is_within(2, "kitten", "sitting"));
    EXPECT_TRUE(is_within(0, "", ""));
    EXPECT_FALSE(is_within(2, "", "abc"));
    const std::string endless(std::size_t{1} << 26, 'a');  // the whole table would not fit into memory
    EXPECT_FALSE(is_within(10, endless, "learning_rate"));
    EXPECT_FALSE(is_within(10, "learning_rate", endless));
}

}  // namespace
}  // namespace escalier
