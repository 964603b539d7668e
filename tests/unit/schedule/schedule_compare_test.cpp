#include "apps/escalier/schedule_compare.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "core/error.h"

namespace escalier::apps {
namespace {

schedule::GenerateOptions sizes(int pp, int micro_batches, int chunks = 0) {
    schedule::GenerateOptions options;
    options.pp = pp;
    options.chunks = chunks;
    options.micro_batches = micro_batches;
    return options;
}

std::string compare(const std::string& list, const schedule::GenerateOptions& options,
                    const std::string& cost = unit_costs) {
    return compare_schedules(list, options, parse_costs(cost), "");
}

// Lines by their first word, with single blanks.
std::map<std::string, std::string> lines_of(const std::string& text) {
    std::map<std::string, std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
        std::istringstream words(line);
        std::string first, joined;
        words >> first;
        for (std::string word; words >> word;) joined += (joined.empty() ? "" : " ") + word;
        lines[first] = joined;
    }
    return lines;
}

void expect_refusal(const std::string& list, const schedule::GenerateOptions& options,
                    const std::string& cost, const std::string& part) {
    try {
        compare(list, options, cost);
        ADD_FAILURE() << part;
    } catch (const ConfigError& error) {
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
}

// Figures of METRICS.csv (set A), those of kinds with two chunks halved.
TEST(ScheduleCompare, KindsAreMeasuredInSharesOfARank) {
    const auto lines =
        lines_of(compare("gpipe,1f1b,interleaved,zb-h1,zb-h2,zbv,dualpipe,dualpipev", sizes(4, 8)));
    EXPECT_EQ(lines.at("gpipe"), "1 33 27.3 % 27.3 % 8 8 48 bits of 1f1b");
    EXPECT_EQ(lines.at("1f1b"), "1 33 27.3 % 27.3 % 1 to 4 1 to 4 48 bits of 1f1b");
    EXPECT_EQ(lines.at("interleaved"), "2 28.5 15.8 % 15.8 % 2.5 to 5.5 2.5 to 5.5 112 bits of 1f1b");
    EXPECT_EQ(lines.at("zb-h1"), "1 27 11.1 % 11.1 % 4 1 to 4 48 bits of 1f1b");
    EXPECT_EQ(lines.at("zb-h2"), "1 27 11.1 % 0.0 % 7 1 to 7 48 bits of 1f1b");
    EXPECT_EQ(lines.at("zbv"), "2 25.5 5.9 % 0.0 % 4 4 96 bits of 1f1b");
    EXPECT_EQ(lines.at("dualpipe"), "2 26 7.7 % 7.7 % 5 5 48 to rounding");
    EXPECT_EQ(lines.at("dualpipev"), "2 27 11.1 % 11.1 % 4.5 4.5 96 bits of 1f1b");
}

TEST(ScheduleCompare, AllMeansEveryKindThatTakesTheSizes) {
    const std::string text = compare("all", sizes(3, 7));
    const auto lines = lines_of(text);
    for (const auto& kind : schedule::kinds())
        EXPECT_TRUE(lines.contains(std::string(kind.name)) || lines.contains(std::string(kind.name) + ":"))
            << kind.name;
    EXPECT_TRUE(lines.contains("1f1b"));
    EXPECT_NE(text.find("\nnot at these sizes:\ndualpipe: its pipeline ranks must be even, found 3"),
              std::string::npos)
        << text;
}

TEST(ScheduleCompare, OptionsGoToTheKindsThatTakeThem) {
    auto options = sizes(2, 4, 3);
    options.group = 4;
    options.backward = schedule::BackwardOrder::lifo;
    const auto lines = lines_of(compare("gpipe,1f1b,interleaved,zbv", options));
    EXPECT_EQ(lines.at("1f1b").substr(0, 2), "1 ");
    EXPECT_EQ(lines.at("interleaved").substr(0, 2), "3 ");
    EXPECT_EQ(lines.at("zbv").substr(0, 2), "2 ");
    EXPECT_NE(lines.at("gpipe").find("to rounding"), std::string::npos);
    EXPECT_NE(lines.at("1f1b").find("bits of 1f1b"), std::string::npos);
    expect_refusal("1f1b,zbv", options, unit_costs, "--chunks 3: none of the compared schedules takes it");
    options.chunks = 0;
    expect_refusal("gpipe,1f1b", options, unit_costs, "--group: none");
    options.group = 0;
    expect_refusal("zbv,1f1b", options, unit_costs, "--backward lifo: none");
}

TEST(ScheduleCompare, TakesOneCostForAllStages) {
    const auto lines = lines_of(compare("1f1b,zbv", sizes(2, 4), "F=2,I=2,W=2"));
    EXPECT_EQ(lines.at("1f1b").substr(0, 5), "1 30 ");
    expect_refusal("1f1b", sizes(2, 4), "F=1:2", "--cost has a value per stage");
    expect_refusal("1f1b,zbw", sizes(2, 4), unit_costs, "did you mean `zbv`");
    expect_refusal("1f1b,1f1b", sizes(2, 4), unit_costs, "named twice");
    expect_refusal(",", sizes(2, 4), unit_costs, "schedule `` does not exist");
    expect_refusal("dualpipe", sizes(3, 4), unit_costs,
                   "no schedule takes these sizes:\ndualpipe: its pipeline");
    expect_refusal("gpipe", sizes(2, 4), "pair=0.9", "pair= is about overlapped pairs, none of the compared");
}

// With one chunk and with two, since more chunks can do what one cannot: here as fast as the best V schedule
// in half of 1f1b's memory.
TEST(ScheduleCompare, AutoStandsThereWithOneChunkAndWithTwo) {
    const std::string text = compare_schedules("1f1b,v-min,auto", sizes(4, 8), parse_costs(unit_costs), "2");
    EXPECT_NE(text.find("auto           1        41"), std::string::npos) << text;
    const auto lines = lines_of(text);
    EXPECT_EQ(lines.at("v-min"), "2 29.5 18.6 % 18.6 % 2 1.5 to 2 96 bits of 1f1b");
    EXPECT_EQ(lines.at("auto"), lines.at("v-min"));
    EXPECT_NE(lines.at("1f1b").find("bits of 1f1b, over --memory"), std::string::npos) << text;
}

}  // namespace
}  // namespace escalier::apps
