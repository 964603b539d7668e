#include "checkpoint/retention.h"

#include <gtest/gtest.h>

namespace escalier::checkpoint {
namespace {

using Names = std::vector<std::string>;

Names expired(std::int64_t newest, std::int64_t keep_last, std::int64_t keep_every) {
    const std::vector<CheckpointEntry> entries = {{"s1", 1, ""}, {"s2", 2, ""}, {"s3", 3, "damaged"},
                                                  {"s4", 4, ""}, {"s5", 5, ""}, {"s6", 6, ""},
                                                  {"s8", 8, ""}};
    config::CheckpointConfig config;
    config.keep_last = keep_last;
    config.keep_every = keep_every;
    return expired_checkpoints(entries, newest, config);
}

TEST(Retention, TheNewestWholeOnesStay) {
    EXPECT_EQ(expired(8, 1, 0), (Names{"s1", "s2", "s4", "s5", "s6"}));
    EXPECT_EQ(expired(8, 3, 0), (Names{"s1", "s2", "s4"}));
    EXPECT_EQ(expired(8, 6, 0), Names{});
    EXPECT_EQ(expired(8, 100, 0), Names{});
}

TEST(Retention, ZeroKeepsAll) {
    EXPECT_EQ(expired(8, 0, 0), Names{});
}

TEST(Retention, SomeStayForEver) {
    EXPECT_EQ(expired(8, 1, 2), (Names{"s1", "s5"}));
    EXPECT_EQ(expired(8, 1, 1), Names{});
}

TEST(Retention, WhatAnotherBranchWroteBeyondTheNewestIsNotCounted) {
    EXPECT_EQ(expired(5, 2, 0), (Names{"s1", "s2"}));
    EXPECT_EQ(expired(1, 1, 0), Names{});
}

}  // namespace
}  // namespace escalier::checkpoint
