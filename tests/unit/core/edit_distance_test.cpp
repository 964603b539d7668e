#include "core/edit_distance.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace escalier
