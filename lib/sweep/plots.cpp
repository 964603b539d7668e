#include "sweep/plots.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include "report/line_plot.h"

namespace escalier::sweep {

namespace {

constexpr int points_of_theory = 100;

struct Group {
    std::int64_t stages = 1;  // pipeline ranks
    std::string rest;         // what else tells its points from others'
    auto operator<=>(const Group&) const = default;
};

bool has_axis(const Sweep& sweep, const std::string& key) {
    return std::any_of(sweep.axes.begin(), sweep.axes.end(), [&](const config::SweepAxis& axis) {
        return axis.key == key && axis.values.size() > 1;
    });
}

// The micro-batches follow from it, so that it lies along the lines.
std::string axis_along(const Sweep& sweep) {
    for (const char* key : {"train.global_batch", "train.micro_batch"})
        if (has_axis(sweep, key)) return key;
    return "";
}

Group group_of(const Sweep& sweep, const Point& point) {
    Group group;
    group.stages = point.spec->parallel.pp;
    const std::string along = axis_along(sweep);
    for (std::size_t i = 0; i < sweep.axes.size(); ++i) {
        const std::string& key = sweep.axes[i].key;
        if (sweep.axes[i].values.size() == 1 || key == along || key == "parallel.pp") continue;
        std::string value = point.settings[i].value;
        if (key == "ranks") value = std::to_string(point.spec->parallel.dp);
        const std::string name = key == "ranks" ? "dp" : key.substr(key.rfind('.') + 1);
        group.rest += (key == "pipeline.schedule" ? ", " : ", " + name + " ") + value;
    }
    return group;
}

// Lines over micro-batches, by group.
using Lines = std::map<Group, std::vector<report::PlotPoint>>;

Lines lines_of(const Sweep& sweep, const std::vector<Row>& rows,
               const std::function<std::optional<double>(const Row&)>& value) {
    Lines lines;
    for (const Row& row : rows) {
        const std::optional<double> y = value(row);
        if (row.status != Status::done || !y) continue;
        lines[group_of(sweep, *row.point)].push_back(
            {static_cast<double>(row.point->spec->micro_batches()), *y});
    }
    for (auto& [group, points] : lines)
        std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.x < b.x; });
    return lines;
}

report::LinePlot plot_of(const Lines& lines) {
    report::LinePlot plot;
    std::set<std::int64_t> stages;
    std::set<std::string> rests;
    double least = 1e300, most = 0;
    for (const auto& [group, points] : lines) {
        stages.insert(group.stages);
        rests.insert(group.rest);
        least = std::min(least, points.front().x);
        most = std::max(most, points.back().x);
    }
    for (const auto& [group, points] : lines) {
        report::PlotLine line;
        line.label = fmt::format("P = {}{}", group.stages, group.rest);
        line.points = points;
        line.colour = static_cast<int>(std::distance(stages.begin(), stages.find(group.stages)));
        line.marker = static_cast<int>(std::distance(rests.begin(), rests.find(group.rest)));
        plot.lines.push_back(std::move(line));
    }
    plot.doubling_x = most >= 4 * least;
    plot.from_zero = true;
    plot.x_label = "micro-batches per step and replica, M";
    return plot;
}

// One dashed line for each number of stages, as far as its points reach.
void add_theory(report::LinePlot& plot, const Lines& lines) {
    struct Reach {
        double least = 1e300, most = 0;
    };
    std::map<std::int64_t, Reach> reaches;
    for (const auto& [group, points] : lines) {
        Reach& reach = reaches[group.stages];
        reach.least = std::min(reach.least, points.front().x);
        reach.most = std::max(reach.most, points.back().x);
    }
    int colour = 0;
    for (const auto& [stages, reach] : reaches) {
        report::PlotLine line;
        line.label = fmt::format("P = {}, (P-1)/(M+P-1)", stages);
        line.colour = colour++;
        line.dashed = true;
        const double others = static_cast<double>(stages - 1);
        for (int i = 0; i <= points_of_theory; ++i) {
            const double m = reach.least + (reach.most - reach.least) * i / points_of_theory;
            line.points.push_back({m, others / (m + others)});
        }
        if (stages > 1) plot.lines.push_back(std::move(line));
    }
}

}  // namespace

std::vector<Plot> plots(const Sweep& sweep, const std::vector<Row>& rows) {
    const std::string name = std::filesystem::path(sweep.folder).filename().string();
    std::vector<Plot> pictures;
    if (const Lines lines = lines_of(sweep, rows, [](const Row& row) { return row.metrics.tokens_per_s; });
        !lines.empty()) {
        report::LinePlot plot = plot_of(lines);
        plot.title = name + ": throughput";
        plot.note = "median of a run's steps without the first; P pipeline ranks";
        plot.y_label = "tokens per second";
        pictures.push_back({"throughput.svg", report::to_svg(plot)});
    }
    if (const Lines lines = lines_of(sweep, rows, [](const Row& row) { return row.bubble; });
        !lines.empty()) {
        report::LinePlot plot = plot_of(lines);
        add_theory(plot, lines);
        plot.title = name + ": bubble";
        plot.note = "measured idle share of the pipeline; dashed: gpipe and 1f1b with equal stages";
        plot.y_label = "idle share";
        plot.percent_y = true;
        pictures.push_back({"bubble.svg", report::to_svg(plot)});
    }
    return pictures;
}

}  // namespace escalier::sweep
