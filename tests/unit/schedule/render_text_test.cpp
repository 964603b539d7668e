#include "schedule/render_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "core/error.h"
#include "golden.h"
#include "schedule/generators.h"

namespace escalier::schedule {
namespace {

std::string draw(const Schedule& schedule, double weight_gradient = 1) {
    return staircase(schedule,
                     simulate(schedule, Durations::uniform(schedule.stages(), 1, 1, weight_gradient, 0)));
}

TEST(Staircase, ShowsForwardBackwardAndIdleTime) {
    EXPECT_EQ(draw(generate({"gpipe", 4, 1, 6})),
              "rank 0  F0 F1 F2 F3 F4 F5 ...........................B0    B1    B2    B3    B4    B5      "
              "idle 33.3 %\n"
              "rank 1  ...F0 F1 F2 F3 F4 F5 ..................B0    B1    B2    B3    B4    B5    ......  "
              "idle 33.3 %\n"
              "rank 2  ......F0 F1 F2 F3 F4 F5 .........B0    B1    B2    B3    B4    B5    ............  "
              "idle 33.3 %\n"
              "rank 3  .........F0 F1 F2 F3 F4 F5 B0    B1    B2    B3    B4    B5    ..................  "
              "idle 33.3 %\n"
              "idle 33.3 %\n");
    EXPECT_NE(draw(generate({"gpipe", 4, 1, 24})).find("\nidle 11.1 %\n"), std::string::npos);
}

TEST(Staircase, NamesTheStageWhenARankHoldsSeveral) {
    const std::string text = draw(read_order("zbv_P2_V2_M4.csv"));
    EXPECT_EQ(text.rfind("rank 0  0F0 0F1 0F2 3F0 3I0 3W0 ", 0), 0u) << text;
    EXPECT_NE(text.find("\nidle 4.0 %\n"), std::string::npos) << text;
}

TEST(Staircase, AnOverlappedPairIsOneCell) {
    Schedule schedule = generate({"1f1b", 1, 1, 1});
    schedule.ranks = {{{ActionKind::F, 0, 0}, {ActionKind::F, 1, 0}, {ActionKind::B, 1, 0}}};
    Timeline timeline;
    timeline.makespan = 9;
    timeline.idle = {0.25};
    timeline.idle_share = 0.25;
    timeline.ranks = {
        {{{ActionKind::F, 0, 0}, 0, 1}, {{ActionKind::F, 0, 1, true}, 2, 6}, {{ActionKind::B, 1, 0}, 2, 6}}};
    schedule.chunks = 2;
    EXPECT_EQ(staircase(schedule, timeline),
              "rank 0  0F0 ....0F1&1B0         ............  idle 25.0 %\nidle 25.0 %\n");
}

// Without numbers cut in two, and with every action whose time is long enough.
TEST(Staircase, LongRowsAreCutBetweenLabels) {
    const std::string text = draw(generate({"1f1b", 4, 1, 24}));
    std::istringstream lines(text);
    int panels = 1, found = 0;
    for (std::string line; std::getline(lines, line);) {
        EXPECT_LE(line.size(), 230u);
        panels += line.empty();
        if (line.rfind("rank 0", 0) != 0) continue;
        std::istringstream cells(line.substr(6));
        for (std::string word; cells >> word;) found += word[0] == 'F' || word.find("B") != std::string::npos;
    }
    EXPECT_EQ(panels, 2) << text;
    EXPECT_EQ(found, 48) << text;
    EXPECT_EQ(text.rfind("from 0 to ", 0), 0u) << text;
    EXPECT_NE(text.find(" to 81\n"), std::string::npos) << text;
    EXPECT_NE(text.find("\nidle 11.1 %\n"), std::string::npos);
}

TEST(Staircase, ActionsTooShortForTheirNumberShowTheirKind) {
    const Schedule schedule = generate({"1f1b", 8, 1, 140});
    const std::string text = staircase(schedule, simulate(schedule, Durations::uniform(8, 0.5, 1, 1, 0)));
    EXPECT_NE(text.find("\nrank 7  .........FB0   FB1   "), std::string::npos) << text.substr(0, 2000);
    EXPECT_NE(text.find("FB100 FB101 "), std::string::npos);
    EXPECT_EQ(draw(read_order("zbh1_P4_V1_M8.csv"), 1e-7).find("W"), std::string::npos);
}

TEST(Staircase, HugeSchedulesAreSummedUp) {
    const std::string text = draw(generate({"1f1b", 64, 1, 256}));
    EXPECT_EQ(text.rfind("overview: one column is 4.785 of time", 0), 0u) << text.substr(0, 300);
    EXPECT_LT(text.size(), 64u * 240);
    std::istringstream lines(text);
    std::string line;
    for (int i = 0; i < 2; ++i) std::getline(lines, line);
    EXPECT_EQ(line.rfind("rank  0  FFFFFFFFFFFFF..........................FBBFBBFBB", 0), 0u) << line;
    const auto letters = [&](char letter) {
        return static_cast<double>(std::count(line.begin(), line.end(), letter));
    };
    EXPECT_NEAR(letters('F') * 2, letters('B'), 2) << line;
    EXPECT_EQ(line.size(), std::string("rank  0  ").size() + 200 + std::string("  idle 19.7 %").size());
}

TEST(Staircase, RanksLineUpWhenTheirNumbersDiffer) {
    std::istringstream rows(draw(generate({"1f1b", 11, 1, 2})));
    std::string first, row;
    std::getline(rows, first);
    for (int rank = 1; rank < 11; ++rank) {
        std::getline(rows, row);
        EXPECT_EQ(row.size(), first.size());
    }
}

}  // namespace
}  // namespace escalier::schedule
