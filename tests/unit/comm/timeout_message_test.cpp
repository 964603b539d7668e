#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "comm/timeout_message.h"

namespace escalier::comm {
namespace {

constexpr double silent_after_s = 3;
constexpr double timeout_s = 30;

// Ranks are heard of 0.5 s ago unless a test says otherwise.
SeenReport seen(double waiting_s, RankSet awaited, const char* label, ActivityReport activity = {}) {
    SeenReport s;
    s.report.waiting_s = waiting_s;
    s.report.awaited = awaited;
    s.report.activity = activity;
    std::strcpy(s.report.label, label);
    std::strcpy(s.report.host, "node1");
    s.seen_s = 0.5;
    return s;
}

ActivityReport action(Doing doing, int stage, int micro_batch, double seconds) {
    return {doing, stage, micro_batch, seconds};
}

SeenReport waits_for_stage_before(int rank) {
    const std::string label = "F of stage " + std::to_string(rank) + ", micro-batch 3";
    return seen(30.5, RankSet::one(rank - 1), label.c_str(), action(Doing::forward, rank, 2, 60));
}

// A pipeline of 8 in which rank 4 is in F(4,3) and all behind it wait; those before it wait for its gradient.
std::vector<SeenReport> pipeline_of_eight() {
    std::vector<SeenReport> ranks;
    for (int r = 0; r < 4; ++r) {
        const std::string label = "B of stage " + std::to_string(r) + ", micro-batch 0";
        ranks.push_back(seen(25, RankSet::one(r + 1), label.c_str(), action(Doing::forward, r, 7, 26)));
    }
    ranks.push_back(
        seen(-1, RankSet::one(3), "F of stage 4, micro-batch 3", action(Doing::forward, 4, 3, 30.5)));
    for (int r = 5; r < 8; ++r) ranks.push_back(waits_for_stage_before(r));
    return ranks;
}

std::string message_of(int rank, const std::vector<SeenReport>& ranks) {
    return timeout_message(rank, timeout_s, ranks, silent_after_s);
}

std::ptrdiff_t lines(const std::string& message) {
    return 1 + std::count(message.begin(), message.end(), '\n');
}

void expect_in(const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << "wanted: " << part << "\nmessage: " << message;
}

TEST(TimeoutMessage, SaysWhoWaitsForWhatFromWhomAndWhatThatOneIsIn) {
    const std::string message = message_of(7, pipeline_of_eight());
    expect_in(message,
              "rank 4 (node1) has been in F(4,3) for 31 s; rank 7 has waited 31 s, longer than "
              "run.comm_timeout_s = 30 s.\n");
    EXPECT_EQ(message.find("rank 4"), 0U) << message;
    expect_in(message,
              "\n  rank 5 waits for F of stage 5, micro-batch 3, from rank 4, which has been in F(4,3) for "
              "31 s\n");
    expect_in(message, "\n  rank 6 waits for F of stage 6, micro-batch 3, from rank 5\n");
    expect_in(message, "\n  rank 3 waits for B of stage 3, micro-batch 0, from rank 4, which has been in");
    expect_in(message, "\n  and 2 more ranks, of which 2 wait\n");
    EXPECT_EQ(lines(message), 8) << message;
}

TEST(TimeoutMessage, FollowsTheWaitsFromEveryRankToTheSameRoot) {
    const std::vector<SeenReport> ranks = pipeline_of_eight();
    for (int r = 0; r < 8; ++r) EXPECT_EQ(root_of_wait(r, ranks, silent_after_s), 4) << "from rank " << r;
}

TEST(TimeoutMessage, NamesWhatASilentRankWasIn) {
    std::vector<SeenReport> ranks = pipeline_of_eight();
    ranks[4].seen_s = 29;
    expect_in(message_of(5, ranks),
              "rank 4 (node1) has been silent for 29 s, before that in F(4,3); rank 5 has");
    expect_in(message_of(5, ranks), "Look for a stopped, swapping or overloaded process there");
    ranks[5].seen_s = 20;
    ranks[5].report.waiting_s = 1;
    EXPECT_EQ(root_of_wait(7, ranks, silent_after_s), 5);
    expect_in(message_of(7, ranks),
              "rank 5 (node1) has been silent for 20 s, before that waiting for F of "
              "stage 5, micro-batch 3; rank 7 ");
}

// Of a rank on the own node the activity is that of now, even where nothing is heard of it.
TEST(TimeoutMessage, NamesWhatASilentRankIsInWhereItIsKnown) {
    std::vector<SeenReport> ranks = pipeline_of_eight();
    ranks[4].seen_s = 29;
    ranks[4].report.waiting_s = 1;  // when it was last heard of
    ranks[4].report.activity = action(Doing::forward, 4, 3, 31);
    ranks[4].knows_present = true;
    expect_in(message_of(5, ranks),
              "rank 4 (node1) has been in F(4,3) for 31 s and has been silent for 29 s; rank 5 has");
    ranks[4].report.activity.waiting = true;
    expect_in(message_of(5, ranks),
              "rank 4 (node1) has been silent for 29 s, before that waiting after F(4,3); rank 5 has");
    ranks[4].report.activity.waiting = false;
    ranks[4].seen_s = -1;
    expect_in(message_of(5, ranks), "rank 4 has been in F(4,3) for 31 s and has never reported; rank 5 has");
}

TEST(TimeoutMessage, NamesRanksThatNeverReported) {
    std::vector<SeenReport> ranks(3);
    ranks[0] = seen(31, {}, "the other ranks to set up a group");
    EXPECT_EQ(root_of_wait(0, ranks, silent_after_s), 1);
    const std::string message = message_of(0, ranks);
    expect_in(message, "rank 1 has never reported; rank 0 has waited 32 s");
    expect_in(message, "\n  rank 2 has never reported\n");
}

TEST(TimeoutMessage, FindsTheMissingOneOfAGroup) {
    // Ranks 1, 3, 5 and 7 sum; 5 is elsewhere, and waits for rank 4.
    const RankSet group{1, 2, 4};
    std::vector<SeenReport> ranks;
    for (int r = 0; r < 8; ++r) ranks.push_back(seen(-1, {}, "loss", {Doing::optimizer, 0, 0, 2}));
    for (const int r : {1, 3, 7})
        ranks[static_cast<std::size_t>(r)] =
            seen(31, group, "attention, sum over tp", action(Doing::forward, 2, r, 33));
    ranks[5] = seen(31, RankSet::one(4), "F of stage 2, micro-batch 1");
    EXPECT_EQ(root_of_wait(1, ranks, silent_after_s), 4);
    const std::string message = message_of(1, ranks);
    expect_in(message, "rank 4 (node1) has been in the optimizer for 3 s; rank 1 has");
    expect_in(message,
              "\n  rank 5 waits for F of stage 2, micro-batch 1, from rank 4, which has been in the ");
    expect_in(message, "\n  and 2 more ranks, of which 2 wait");
    ranks[4].report.waiting_s = 1;
    ranks[4].report.awaited = group;  // not of its group: of those that are, rank 5 alone is not in the sum
    EXPECT_EQ(root_of_wait(7, ranks, silent_after_s), -1);
    ranks[5].report.waiting_s = -1;
    ranks[5].report.activity = action(Doing::forward, 2, 1, 9);
    expect_in(message_of(3, ranks),
              "\n  rank 3 waits for attention, sum over tp in F(2,3), with rank 5, which has been in F(2,1)");
}

TEST(TimeoutMessage, SilentMembersOfAGroupComeFirst) {
    std::vector<SeenReport> ranks(4, seen(31, {}, "gradient norm"));
    ranks[1] = seen(-1, {}, "loss");
    ranks[2].seen_s = 20;
    EXPECT_EQ(root_of_wait(0, ranks, silent_after_s), 2);
}

TEST(TimeoutMessage, SaysWhenAllWaitForOneAnother) {
    const std::vector<SeenReport> ranks = {seen(31, RankSet::one(1), "x"), seen(30, RankSet::one(0), "y")};
    EXPECT_EQ(root_of_wait(0, ranks, silent_after_s), -1);
    const std::string message = message_of(0, ranks);
    expect_in(message, "all ranks answer, and they wait for one another; rank 0 has waited 32 s");
    expect_in(message, "\n  rank 0 waits for x, from rank 1\n  rank 1 waits for y, from rank 0\n");
}

TEST(TimeoutMessage, ListsAFewOfMany) {
    std::vector<SeenReport> ranks(100);
    ranks[0] = seen(31, {}, "x");
    const std::string message = message_of(0, ranks);
    EXPECT_EQ(lines(message), 8) << message;
    expect_in(message, "\n  and 94 more ranks, of which 1 wait");
}

TEST(SomeRankWorks, WhenOneAnswersAndDoesNotWait) {
    const SeenReport waits = seen(4, RankSet::one(0), "y"), works = seen(-1, {}, "y");
    SeenReport silent = works;
    silent.seen_s = 4;
    const SeenReport never;
    EXPECT_TRUE(some_rank_works(0, {waits, works, waits}, silent_after_s));
    EXPECT_FALSE(some_rank_works(0, {waits, waits, waits}, silent_after_s));
    EXPECT_FALSE(some_rank_works(0, {waits, waits, silent}, silent_after_s));
    EXPECT_FALSE(some_rank_is_silent(0, {waits, works, waits}, silent_after_s));
    EXPECT_TRUE(some_rank_is_silent(0, {waits, works, silent}, silent_after_s));
    EXPECT_TRUE(some_rank_is_silent(0, {waits, works, never}, silent_after_s));
}

TEST(Activity, IsNamedAsScheduleNotationHasIt) {
    EXPECT_EQ(action(Doing::input_gradients, 12, 345, 0).text(), "I(12,345)");
    EXPECT_EQ(action(Doing::saving, 0, 0, 0).text(), "saving a checkpoint");
    EXPECT_EQ(action(Doing::drawing, 0, 45, 0).text(), "the draw of token 45");
}

TEST(Activity, GoesOnWhileTheSameIsAnnounced) {
    Activity activity;
    EXPECT_EQ(activity.report().doing, Doing::start_up);
    activity.begin(Doing::backward, 70000, 123456);
    const ActivityReport first = activity.report();
    EXPECT_EQ(first.text(), "B(70000,123456)");
    while (activity.report().seconds <= first.seconds) {
    }
    const double before = activity.report().seconds;
    activity.begin(Doing::backward, 70000, 123456);
    EXPECT_GE(activity.report().seconds, before);
    EXPECT_FALSE(activity.report().waiting);
    activity.set_waiting(true);
    EXPECT_TRUE(activity.report().waiting);
}

}  // namespace
}  // namespace escalier::comm
