#include <gtest/gtest.h>

#include <cstring>

#include "comm/watchdog.h"

namespace escalier::comm {
namespace {

RankReport report(double waiting_s, int peer, const char* label) {
    RankReport r;
    r.waiting_s = waiting_s;
    r.peer = peer;
    std::strcpy(r.label, label);
    std::strcpy(r.host, "node1");
    return r;
}

constexpr double silent_after_s = 3;

TEST(TimeoutMessage, NamesTheSilentRank) {
    const std::string message =
        timeout_message(0, report(121, 1, "the gradient for B of stage 0, micro-batch 3"), 120,
                        {{{}, -1},
                         {report(-1, 0, "the activation for F of stage 1, micro-batch 4"), 119},
                         {report(118, -1, "gradient norm"), 0.5},
                         {{}, -1}},
                        silent_after_s);
    EXPECT_NE(
        message.find("rank 0 (node1) has waited 121 s for \"the gradient for B of stage 0, micro-batch 3\" "
                     "from rank 1, longer than run.comm_timeout_s = 120 s."),
        std::string::npos)
        << message;
    EXPECT_NE(message.find("Ranks that stopped answering: 2"), std::string::npos) << message;
    EXPECT_NE(
        message.find("rank 1 (node1) has been silent for 119 s; it was past its wait for \"the activation "
                     "for F of stage 1, micro-batch 4\" from rank 0"),
        std::string::npos)
        << message;
    EXPECT_NE(message.find("rank 3 has never reported"), std::string::npos) << message;
    EXPECT_EQ(message.find("gradient norm"), std::string::npos) << message;
}

TEST(TimeoutMessage, NamesBusyRanksWhenNoneIsSilent) {
    const std::string message = timeout_message(
        1, report(5, -1, "gradient norm"), 4,
        {{report(-1, -1, "loss"), 0.2}, {{}, -1}, {report(4, -1, "gradient norm"), 0.1}}, silent_after_s);
    EXPECT_NE(
        message.find("No rank is silent. Not waiting: 1\n  rank 0 (node1) is alive and works; its last wait "
                     "was \"loss\""),
        std::string::npos)
        << message;
}

TEST(TimeoutMessage, SaysWhenAllWait) {
    const std::string message =
        timeout_message(0, report(5, 1, "x"), 4, {{{}, -1}, {report(4, 0, "y"), 0.1}}, silent_after_s);
    EXPECT_NE(message.find("All ranks answer, and all of them wait."), std::string::npos) << message;
}

TEST(SomeRankWorks, WhenAllAnswerAndOneDoesNotWait) {
    const SeenReport self{{}, -1}, waits{report(4, 0, "y"), 0.1}, works{report(-1, -1, "y"), 0.1};
    const SeenReport silent{report(-1, -1, "y"), 4}, never{{}, -1};
    EXPECT_TRUE(some_rank_works(0, {self, works, waits}, silent_after_s));
    EXPECT_FALSE(some_rank_works(0, {self, waits, waits}, silent_after_s));
    EXPECT_FALSE(some_rank_works(0, {self, works, silent}, silent_after_s));
    EXPECT_FALSE(some_rank_works(0, {self, works, never}, silent_after_s));
}

TEST(TimeoutMessage, ListsAFewOfMany) {
    std::vector<SeenReport> seen(100);
    const std::string message = timeout_message(0, report(5, 1, "x"), 4, seen, silent_after_s);
    EXPECT_NE(message.find("Ranks that stopped answering: 99"), std::string::npos) << message;
    EXPECT_EQ(message.find("rank 20 "), std::string::npos) << message;
}

}  // namespace
}  // namespace escalier::comm
