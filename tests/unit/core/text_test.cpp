#include "core/text.h"

#include <gtest/gtest.h>

namespace escalier {
namespace {

TEST(Grouped, SetsACommaBeforeEveryThreeDigits) {
    EXPECT_EQ(grouped(0), "0");
    EXPECT_EQ(grouped(999), "999");
    EXPECT_EQ(grouped(124439808), "124,439,808");
    EXPECT_EQ(grouped(-123), "-123");
    EXPECT_EQ(grouped(-1234), "-1,234");
}

}  // namespace
}  // namespace escalier
