#include "schedule/render.h"

#include <gtest/gtest.h>

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

Schedule parse(const std::string& text) {
    std::istringstream in(text);
    return from_csv(in, "own.csv");
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

TEST(Staircase, RowsStayWithinReasonWhenOneActionIsVeryShort) {
    const std::string text = draw(read_order("zbh1_P4_V1_M8.csv"), 1e-7);
    EXPECT_LT(text.size(), 100000u);
    EXPECT_GT(text.size(), 20000u);
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

TEST(Csv, EveryOrderFileIsReadAndWrittenUnchanged) {
    for (const std::string& file : order_files("")) {
        const Schedule schedule = read_order(file);
        const Schedule again = parse(to_csv(schedule));
        EXPECT_EQ(again.ranks, schedule.ranks) << file;
        EXPECT_EQ(again.placement, schedule.placement) << file;
        const bool v = file.rfind("zbv", 0) == 0 || file.rfind("dualpipev", 0) == 0;
        EXPECT_EQ(schedule.placement == Placement::v, v && schedule.pp > 1) << file;
        EXPECT_NE(
            file.find("_V" + std::to_string(schedule.chunks) + "_M" + std::to_string(schedule.micro_batches)),
            std::string::npos)
            << file;
    }
    EXPECT_EQ(to_csv(generate({"1f1b", 2, 1, 2})), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
}

TEST(Csv, IdleCellsSpacesAndLineEndsDoNotMatter) {
    const Schedule schedule = parse("0F0,0F1, 0B0 ,,0B1\r\n,1F0,1B0,1F1,1B1,,\r\n\r\n");
    EXPECT_EQ(schedule.ranks, generate({"1f1b", 2, 1, 2}).ranks);
}

TEST(Csv, ABadCellIsNamedWithItsLine) {
    const auto refusal = [](const std::string& text) -> std::string {
        try {
            parse(text);
        } catch (const ConfigError& error) {
            return error.what();
        }
        return "";
    };
    EXPECT_NE(refusal("0F0,0B0\n1F0,1X0\n").find("own.csv:2: cell `1X0`"), std::string::npos);
    for (const char* bad : {"F0", "0F", "0F0x", "0", "-1F0", "0F-1", "0F99999999999", "0SEND_F0", "0f0"})
        EXPECT_NE(refusal(bad).find(std::string("cell `") + bad + "`"), std::string::npos) << bad;
    EXPECT_NE(refusal("").find("no cell"), std::string::npos);
    EXPECT_NE(refusal("0F0\n1F0\n2F0\n0F1\n").find("3 stages on 4"), std::string::npos);
    EXPECT_NE(refusal("0F0,1F0\n2F0,3F0\n").find("neither in a loop"), std::string::npos);
}

}  // namespace
}  // namespace escalier::schedule
