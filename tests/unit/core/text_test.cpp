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

TEST(Text, ForeignTextIsShortAndPrintable) {
    EXPECT_EQ(shortened("0F3"), "0F3");
    EXPECT_EQ(shortened(std::string("a\x1b[31m\0b\xff", 9)), "a?[31m?b?");
    EXPECT_EQ(shortened(std::string(40, 'x')), std::string(40, 'x'));
    EXPECT_EQ(shortened(std::string(41, 'x')), std::string(40, 'x') + "...");
}

}  // namespace
}  // namespace escalier
