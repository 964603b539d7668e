#include "report/line_plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace escalier::report {
namespace {

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

int count(const std::string& text, const std::string& part) {
    int found = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
    return found;
}

LinePlot plot_of(std::vector<PlotPoint> points) {
    LinePlot plot;
    plot.title = "a < b";
    plot.x_label = "steps";
    plot.y_label = "loss & norm";
    plot.lines.push_back({"run \"1\"", std::move(points)});
    return plot;
}

TEST(LinePlot, NamesAxesAndLines) {
    const std::string svg = to_svg(plot_of({{0, 1}, {10, 3}}));
    EXPECT_TRUE(contains(svg, ">a &lt; b</text>"));
    EXPECT_TRUE(contains(svg, ">loss &amp; norm</text>"));
    EXPECT_TRUE(contains(svg, ">run &quot;1&quot;</text>"));
    for (const char* tick : {">0<", ">2<", ">10<", ">1.5<"}) EXPECT_TRUE(contains(svg, tick)) << tick << svg;
    EXPECT_FALSE(contains(svg, "<script"));
    EXPECT_FALSE(contains(svg, "class="));
}

TEST(LinePlot, HasTicksAtDoublings) {
    LinePlot plot = plot_of({{2, 0.5}, {4, 0.25}, {16, 0.125}});
    plot.doubling_x = plot.percent_y = plot.from_zero = true;
    const std::string svg = to_svg(plot);
    for (const char* tick : {">2<", ">4<", ">8<", ">16<", ">0 %<", ">50 %<"})
        EXPECT_TRUE(contains(svg, tick)) << tick << svg;
    EXPECT_FALSE(contains(svg, ">6<"));
}

TEST(LinePlot, InterruptsALineAtWhatIsNoNumber) {
    const double nan = std::numeric_limits<double>::quiet_NaN(),
                 infinite = std::numeric_limits<double>::infinity();
    const std::string svg = to_svg(plot_of({{0, 1}, {1, 2}, {2, nan}, {3, 2}, {4, infinite}, {5, 1}}));
    const std::size_t begin = svg.find("stroke-width=\"1.8\" d=\"") + 22;
    const std::string path = svg.substr(begin, svg.find('"', begin) - begin);
    EXPECT_EQ(count(path, "M"), 3) << path;
    EXPECT_EQ(count(path, "L"), 1) << path;
    EXPECT_FALSE(contains(svg, "nan"));
    EXPECT_FALSE(contains(svg, "inf"));
}

TEST(LinePlot, DrawsWithoutAScaleToDrawBy) {
    for (const std::vector<PlotPoint>& points :
         std::vector<std::vector<PlotPoint>>{{},
                                             {{3, 5}},
                                             {{3, 0}, {3, 0}},
                                             {{1, 1e17}, {2, 1e17 + 16}},
                                             {{1, 1e-320}, {2, 0}},
                                             {{-1e299, 1}, {1e299, -1e299}},
                                             {{0, -5}, {1, -5}}}) {
        const std::string svg = to_svg(plot_of(points));
        EXPECT_FALSE(contains(svg, "nan")) << svg;
        EXPECT_FALSE(contains(svg, "inf")) << svg;
        EXPECT_LT(svg.size(), 20000u);
    }
}

TEST(LinePlot, ThinsLongLinesWithoutLosingTheirPeaks) {
    std::vector<PlotPoint> points;
    for (int i = 0; i < 200000; ++i) points.push_back({double(i), std::sin(i * 1e-3)});
    points[77777].y = 9;
    const std::string svg = to_svg(plot_of(points));
    EXPECT_LT(svg.size(), 60000u);
    EXPECT_TRUE(contains(svg, ">9<") || contains(svg, ">8<")) << "the scale reaches the peak";
    LinePlot flat = plot_of(points);
    flat.lines[0].points[77777].y = 0;
    EXPECT_NE(to_svg(flat).size(), svg.size());
}

}  // namespace
}  // namespace escalier::report
