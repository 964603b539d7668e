#include "checkpoint/narrow.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "checkpoint/stored_block.h"

namespace escalier::checkpoint {
namespace {

std::uint16_t bits_of(float value, const std::string& dtype) {
    std::uint16_t bits = 0;
    narrow({&value, 1}, dtype, reinterpret_cast<char*>(&bits));
    return bits;
}

// Every value of the two half types that is a number comes back as it was.
TEST(Narrow, ReadingAndWritingAreInverse) {
    std::vector<std::uint16_t> all(1 << 16), back(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
    for (const char* dtype : {"BF16", "F16"}) {
        std::vector<float> values(all.size());
        read_block(reinterpret_cast<const char*>(all.data()), dtype, 1 << 16, {0, 0, 1, 1 << 16},
                   values.data(), 0, 1);
        EXPECT_EQ(narrow(values, dtype, reinterpret_cast<char*>(back.data())), values.size());
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (std::isnan(values[i])) continue;
            ASSERT_EQ(back[i], all[i]) << dtype << " " << values[i];
        }
    }
}

TEST(Narrow, RoundsToNearestEven) {
    EXPECT_EQ(bits_of(1.0f, "F16"), 0x3C00);
    EXPECT_EQ(bits_of(1.0f + std::ldexp(1.0f, -11), "F16"), 0x3C00);      // half way, to even
    EXPECT_EQ(bits_of(1.0f + 3 * std::ldexp(1.0f, -11), "F16"), 0x3C02);  // half way, to even
    EXPECT_EQ(bits_of(1.0f + std::ldexp(1.001f, -11), "F16"), 0x3C01);
    EXPECT_EQ(bits_of(std::ldexp(1.0f, -25), "F16"), 0);
    EXPECT_EQ(bits_of(std::ldexp(1.001f, -25), "F16"), 1);  // the smallest
    EXPECT_EQ(bits_of(1.0f + std::ldexp(1.0f, -8), "BF16"), 0x3F80);
    EXPECT_EQ(bits_of(1.0f + 3 * std::ldexp(1.0f, -8), "BF16"), 0x3F82);
}

TEST(Narrow, FindsWhatIsOutOfRange) {
    const auto first_beyond = [](const std::vector<float>& values, const char* dtype) {
        std::vector<char> out(values.size() * 4);
        return narrow(values, dtype, out.data());
    };
    EXPECT_EQ(first_beyond({65504.0f, 65519.0f, 65520.0f, 1e9f}, "F16"), 2u);
    EXPECT_EQ(first_beyond({1e9f, -3e38f, std::numeric_limits<float>::lowest()}, "BF16"), 2u);
    EXPECT_EQ(first_beyond({std::numeric_limits<float>::infinity()}, "F16"), 1u);
    EXPECT_EQ(first_beyond({1e38f, -1e38f}, "F32"), 2u);
    EXPECT_EQ(first_beyond({}, "F32"), 0u);
}

}  // namespace
}  // namespace escalier::checkpoint
