#include "schedule/svg.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "every_kind.h"

namespace escalier::schedule {
namespace {

std::string draw(const Schedule& schedule, double weight_gradient = 1) {
    return to_svg(schedule,
                  simulate(schedule, Durations::uniform(schedule.stages(), 1, 1, weight_gradient, 0)),
                  "a note");
}

struct Strokes {
    std::string classes;
    double x, y;
    std::string path;
};

// The coloured paths of the rows, without the legend's.
std::vector<Strokes> strokes_of(const std::string& svg) {
    static const std::regex stroke("<path class=\"([^\"]*)\" d=\"M([0-9.]+) (-?[0-9.]+)([^\"]*)\"/>");
    std::vector<Strokes> strokes;
    for (auto at = std::sregex_iterator(svg.begin(), svg.end(), stroke); at != std::sregex_iterator(); ++at)
        strokes.push_back({(*at)[1], std::stod((*at)[2]), std::stod((*at)[3]), (*at)[4]});
    return strokes;
}

std::size_t boxes(const std::string& svg, const std::string& classes = "") {
    std::size_t count = 0;
    for (const Strokes& strokes : strokes_of(svg))
        if (classes.empty() || strokes.classes == classes)
            count += static_cast<std::size_t>(std::count(strokes.path.begin(), strokes.path.end(), 'h'));
    return count;
}

std::size_t occurrences(const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
}

// Micro-batch numbers: the texts inside groups of class n.
std::size_t numbers(const std::string& svg) {
    std::size_t count = 0;
    for (auto at = svg.find("<g class=\"n\">"); at != std::string::npos;
         at = svg.find("<g class=\"n\">", at + 1))
        count += occurrences(svg.substr(at, svg.find("</g>", at) - at), "<text");
    return count;
}

TEST(Svg, EveryActionOfEveryKindIsOneNumberedBox) {
    for (const int micro_batches : {1, 3, 8})
        for (const Schedule& schedule : every_kind(4, micro_batches)) {
            std::size_t actions = 0;
            for (const auto& rank : schedule.ranks) actions += rank.size();
            const std::string svg = draw(schedule);
            EXPECT_EQ(boxes(svg), actions) << schedule.kind;
            EXPECT_EQ(numbers(svg), actions) << schedule.kind;
            EXPECT_EQ(occurrences(svg, ">rank "), 4u) << schedule.kind;
        }
}

TEST(Svg, BoxesStandWhereActionsRun) {
    const std::string svg = draw(generate({"1f1b", 2, 1, 2}));  // makespan 9
    const auto strokes = strokes_of(svg);
    ASSERT_EQ(strokes.size(), 4u);
    const double unit = std::stod(svg.substr(svg.find("d=\"M0 0h") + 8)) / 9;
    const auto expect = [&](const Strokes& row, const std::string& classes, double x, double gap) {
        EXPECT_EQ(row.classes, classes);
        EXPECT_NEAR(row.x, x * unit, 0.01);
        // Two boxes: from the end of the first to the start of the second, with the seam.
        const auto second = row.path.find('m');
        EXPECT_NEAR(std::stod(row.path.substr(second + 1)), gap * unit + 1, 0.02);
    };
    // F0 F1 . . . . B0 B0 B1 and . F0 B0 B0 F1 B1 B1 . .
    expect(strokes[0], "B0", 4, 1);
    expect(strokes[1], "F0", 0, 0);
    expect(strokes[2], "B0", 2, 1);
    expect(strokes[3], "F0", 1, 2);
}

TEST(Svg, CaptionsGiveIdleShareAndPeakMemory) {
    const std::string svg = draw(generate({"1f1b", 4, 1, 8}));
    EXPECT_NE(svg.find(">1f1b: 4 pipeline ranks, 8 micro-batches</text>"), std::string::npos);
    EXPECT_NE(svg.find(">idle 27.3 % (27.3 % without the ranks' stagger), makespan 33, peak memory 4 "
                       "activations of a stage</text>"),
              std::string::npos)
        << svg.substr(0, 2000);
    EXPECT_NE(svg.find(">a note</text>"), std::string::npos);
    EXPECT_EQ(occurrences(svg, ">27.3 %</text>"), 4u);
    for (const char* part : {">forward</text>", ">backward</text>", ">numbers: micro-batches</text>"})
        EXPECT_NE(svg.find(part), std::string::npos) << part;
    EXPECT_EQ(svg.find("input gradient"), std::string::npos);
    const std::string zbv = draw(generate({"zbv", 4, 2, 8}));
    EXPECT_NE(zbv.find("peak memory 8 activations of a stage = 4 of a whole rank"), std::string::npos);
    for (const char* part :
         {">input gradient</text>", ">weight gradient</text>", ">shades: chunk 0 to 1</text>"})
        EXPECT_NE(zbv.find(part), std::string::npos) << part;
}

TEST(Svg, OverlappedPairsAreSplitBoxesAndCopiesAreShades) {
    const Schedule schedule = generate({"dualpipe", 4, 2, 8});
    std::size_t pairs = 0;
    for (const auto& rank : schedule.ranks)
        for (const Action& action : rank) pairs += action.overlaps_next;
    const std::string svg = draw(schedule);
    EXPECT_GT(pairs, 0u);
    EXPECT_EQ(boxes(svg, "F0 h") + boxes(svg, "F1 h"), pairs);
    EXPECT_EQ(boxes(svg, "B0 h") + boxes(svg, "B1 h"), pairs);
    for (const Strokes& strokes : strokes_of(svg)) {
        const bool half = strokes.classes.ends_with(" h");
        EXPECT_EQ(strokes.y < 0, half && strokes.classes[0] == 'F') << strokes.classes;
        EXPECT_EQ(strokes.y > 0, half && strokes.classes[0] == 'B') << strokes.classes;
    }
    EXPECT_NE(svg.find(">overlapped pair</text>"), std::string::npos);
    EXPECT_NE(svg.find(">shades: copy 0, copy 1</text>"), std::string::npos);
    EXPECT_EQ(boxes(draw(flattened(schedule)), "F0 h"), 0u);
}

TEST(Svg, LargePicturesStaySmallFilesOfSensibleWidth) {
    const Schedule schedule = generate({"interleaved", 64, 2, 256});
    const std::string svg = draw(schedule);
    EXPECT_EQ(boxes(svg), 4u * 64 * 256);
    EXPECT_LT(svg.size(), 1000000u);
    EXPECT_EQ(svg.find("<g class=\"n\">"), std::string::npos);
    EXPECT_EQ(svg.find("numbers:"), std::string::npos);
    EXPECT_LT(std::stod(svg.substr(svg.find("width=\"") + 7)), 3500);
}

TEST(Svg, NumbersStandWhereTheyFit) {
    const std::string svg = draw(generate({"zb-h1", 4, 1, 8}), 0.1);
    EXPECT_EQ(boxes(svg), 4u * 8 * 3);
    EXPECT_EQ(numbers(svg), 4u * 8 * 2);  // in F and I boxes
}

TEST(Svg, ForeignNamesAndActionsWithoutTimeDoNoHarm) {
    Schedule schedule = generate({"1f1b", 2, 1, 2});
    schedule.kind = "a<b>&\"'\x01.csv";
    Timeline timeline = simulate(schedule, Durations::uniform(2, 1, 1, 1, 0));
    EXPECT_NE(to_svg(schedule, timeline, "").find("a&lt;b&gt;&amp;&quot;'?.csv: 2 pipeline ranks"),
              std::string::npos);
    for (auto& row : timeline.ranks)
        for (TimedAction& timed : row) timed.start = timed.end = 0;
    timeline.makespan = 0;
    const std::string svg = to_svg(schedule, timeline, "");
    EXPECT_EQ(boxes(svg), 0u);
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
}

}  // namespace
}  // namespace escalier::schedule
