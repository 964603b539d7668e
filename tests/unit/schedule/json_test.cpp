#include "schedule/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "every_kind.h"
#include "schedule/lower.h"

namespace escalier::schedule {
namespace {

nlohmann::json parsed(const Schedule& schedule) {
    const auto durations = Durations::uniform(schedule.stages(), 1, 1.5, 0.5, 0.25);
    const auto programs = lower(schedule);
    return nlohmann::json::parse(
        to_json(schedule, durations, simulate(schedule, programs, durations), prove(schedule, programs)));
}

TEST(Json, HoldsEveryActionWithItsTimes) {
    for (const Schedule& schedule : every_kind(4, 8)) {
        const auto durations = Durations::uniform(schedule.stages(), 1, 1.5, 0.5, 0.25);
        const Timeline timeline = simulate(schedule, lower(schedule), durations);
        const auto json = parsed(schedule);
        EXPECT_EQ(json["kind"], schedule.kind);
        EXPECT_EQ(json["makespan"], timeline.makespan) << schedule.kind;
        ASSERT_EQ(json["ranks"].size(), schedule.ranks.size());
        for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
            const auto& actions = json["ranks"][rank]["actions"];
            ASSERT_EQ(actions.size(), schedule.ranks[rank].size()) << schedule.kind;
            for (std::size_t i = 0; i < actions.size(); ++i) {
                EXPECT_EQ(actions[i]["action"], cell(schedule.ranks[rank][i]));
                EXPECT_EQ(actions[i]["start"], timeline.ranks[rank][i].start);
                EXPECT_EQ(actions[i]["end"], timeline.ranks[rank][i].end);
                EXPECT_EQ(actions[i].contains("overlaps_next"), schedule.ranks[rank][i].overlaps_next);
            }
        }
    }
}

TEST(Json, GivesSizesSharesAndProof) {
    const auto json = parsed(generate({"zbv", 2, 2, 4}));
    EXPECT_EQ(json["placement"], "v");
    EXPECT_EQ(json["pipeline_ranks"], 2);
    EXPECT_EQ(json["chunks"], 2);
    EXPECT_EQ(json["stages"], 4);
    EXPECT_EQ(json["copies"], 1);
    EXPECT_EQ(json["micro_batches"], 4);
    EXPECT_EQ(json["messages"], 16);
    EXPECT_EQ(json["durations"]["input_gradient"], std::vector<double>(4, 1.5));
    EXPECT_EQ(json["durations"]["transfer"], 0.25);
    EXPECT_EQ(json["proof"]["exact"], true);
    EXPECT_EQ(json["proof"]["ascending_weight_gradients"], std::vector<bool>(4, true));
    EXPECT_EQ(json["ranks"][1]["stages"], (std::vector<int>{1, 2}));
    EXPECT_EQ(json["ranks"][1]["peak_until_weight"], 4);
    const double idle = json["idle_share"], busy = json["ranks"][0]["busy"], makespan = json["makespan"];
    EXPECT_NEAR(idle, 1 - busy / makespan, 1e-12);
    const auto copies = parsed(generate({"dualpipe", 2, 2, 4}));
    EXPECT_EQ(copies["placement"], "bidirectional");
    EXPECT_EQ(copies["copies"], 2);
    EXPECT_EQ(copies["proof"]["exact"], false);
}

}  // namespace
}  // namespace escalier::schedule
