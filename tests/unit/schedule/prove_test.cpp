#include "schedule/prove.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "replay.h"
#include "schedule/generators.h"
#include "schedule/lower.h"

namespace escalier::schedule {
namespace {

// The hazard that the lowered programs avoid: receive, compute, blocking send, in this order.
TEST(Prove, NaiveBlockingSendsHangWhereTheyAreKnownTo) {
    const auto completes = [](const GenerateOptions& options) {
        const Schedule schedule = generate(options);
        return replay(schedule, receive_late(lower(schedule)), {true, 1}).completed;
    };
    for (int pp = 1; pp <= 5; ++pp) {
        for (int m = 1; m <= 8; ++m) {
            SCOPED_TRACE("P" + std::to_string(pp) + " M" + std::to_string(m));
            EXPECT_TRUE(completes({"gpipe", pp, 1, m}));
            EXPECT_TRUE(completes({"gpipe", pp, 1, m, BackwardOrder::lifo}));
            for (const char* kind : {"1f1b", "zb-h1", "zb-h2"})
                EXPECT_EQ(completes({kind, pp, 1, m}), pp == 1 || m == 1) << kind;
            for (const char* kind : {"interleaved", "interleaved-zb", "zbv"})
                EXPECT_EQ(completes({kind, pp, 2, m}), pp == 1 || m == 1) << kind;
            EXPECT_EQ(completes({"bfs", pp, 2, m}), pp == 1 || m < pp);
            EXPECT_EQ(completes({"dualpipev", pp, 2, 2 * pp + m}), pp == 1);
            if (pp % 2 == 0) {
                EXPECT_FALSE(completes({"dualpipe", pp, 2, 2 * pp + m}));
            }
        }
    }
}

std::string refusal(const Schedule& schedule) {
    try {
        prove(schedule);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "";
}

TEST(Prove, ACircleIsNamedWithRanksAndActions) {
    Schedule schedule;
    schedule.kind = "own";
    schedule.pp = 2;
    schedule.micro_batches = 2;
    // Rank 0 wants the gradient of micro-batch 0 before it sends micro-batch 1, rank 1 the other way round.
    schedule.ranks = {
        {{ActionKind::F, 0, 0}, {ActionKind::B, 0, 0}, {ActionKind::F, 0, 1}, {ActionKind::B, 0, 1}},
        {{ActionKind::F, 1, 0}, {ActionKind::F, 1, 1}, {ActionKind::B, 1, 0}, {ActionKind::B, 1, 1}}};
    EXPECT_EQ(
        refusal(schedule),
        "schedule `own` never ends, because its actions wait for one another: rank 0 waits in 0B0 for the "
        "gradient of 1B0 from rank 1; rank 1 runs 1B0 after 1F1; rank 1 waits in 1F1 for the activation of "
        "0F1 from rank 0; rank 0 runs 0F1 after 0B0; reorder these actions");
}

TEST(Prove, AnIncompleteScheduleIsNamedByItsAction) {
    const Schedule valid = generate({"1f1b", 2, 1, 2});
    Schedule schedule = valid;
    schedule.ranks[1].pop_back();
    EXPECT_EQ(refusal(schedule), "schedule `1f1b`, rank 1: 1B1 (or I and W) is missing");
    schedule = valid;
    schedule.ranks[0].push_back({ActionKind::F, 0, 1});
    EXPECT_EQ(refusal(schedule), "schedule `1f1b`, rank 0, action 4 (0F1): it comes a second time");
    schedule = valid;
    schedule.ranks[0][0].stage = 1;
    EXPECT_EQ(refusal(schedule), "schedule `1f1b`, rank 0, action 0 (1F0): stage 1 lives on rank 1");
    schedule = valid;
    std::swap(schedule.ranks[1][0], schedule.ranks[1][1]);
    EXPECT_EQ(refusal(schedule), "schedule `1f1b`, rank 1, action 0 (1B0): 1F0 must come before it");
    EXPECT_NE(refusal(forward_only(valid)), "");
}

}  // namespace
}  // namespace escalier::schedule
