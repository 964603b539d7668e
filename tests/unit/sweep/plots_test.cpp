#include "sweep/plots.h"

#include <gtest/gtest.h>

#include "sweep_test_support.h"

namespace escalier::sweep {
namespace {

using namespace testing;

std::vector<Row> measured(const Sweep& sweep) {
    std::vector<Row> rows;
    for (const Point& point : sweep.points) {
        Row row;
        row.point = &point;
        row.status = Status::done;
        row.metrics.tokens_per_s = 1000.0 * double(point.spec->micro_batches());
        row.bubble = 0.25;
        rows.push_back(row);
    }
    return rows;
}

int count(const std::string& text, const std::string& part) {
    int found = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
    return found;
}

TEST(Plots, HaveALinePerNumberOfStagesAndTheTheoryDashed) {
    const Sweep sweep = expanded("{axes: {parallel.pp: [1, 2, 4], train.micro_batch: [1, 2, 4]}}");
    const std::vector<Plot> pictures = plots(sweep, measured(sweep));
    ASSERT_EQ(pictures.size(), 2u);
    EXPECT_EQ(pictures[0].file, "throughput.svg");
    EXPECT_EQ(pictures[1].file, "bubble.svg");
    for (const char* label : {">P = 1<", ">P = 2<", ">P = 4<"})
        for (const Plot& plot : pictures) EXPECT_TRUE(contains(plot.svg, label)) << plot.svg;
    EXPECT_EQ(count(pictures[0].svg, "stroke-dasharray"), 0);
    EXPECT_EQ(count(pictures[1].svg, "stroke-dasharray"), 4);  // two lines, and in the legend
    EXPECT_TRUE(contains(pictures[1].svg, ">P = 4, (P-1)/(M+P-1)<"));
    EXPECT_FALSE(contains(pictures[1].svg, ">P = 1, (P-1)"));
}

TEST(Plots, TellPointsApartByWhatElseTheyDifferIn) {
    const Sweep sweep = expanded(
        "{axes: {pipeline.schedule: [gpipe, 1f1b], train.global_batch: [4, 8], train.micro_batch: [1, 2], "
        "run.seed: "
        "[7]}}",
        {"parallel.pp=2"});
    const std::string svg = plots(sweep, measured(sweep))[0].svg;
    for (const char* label : {">P = 2, gpipe, micro_batch 1<", ">P = 2, 1f1b, micro_batch 2<"})
        EXPECT_TRUE(contains(svg, label)) << svg;
    EXPECT_FALSE(contains(svg, "seed"));
    EXPECT_FALSE(contains(svg, "global_batch"));
}

TEST(Plots, AreNotMadeOfNothing) {
    const Sweep sweep = expanded("{axes: {parallel.pp: [1, 2]}}");
    std::vector<Row> rows = measured(sweep);
    for (Row& row : rows) row.status = Status::failed;
    EXPECT_TRUE(plots(sweep, rows).empty());
}

}  // namespace
}  // namespace escalier::sweep
