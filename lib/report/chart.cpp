#include "report/chart.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "report/axis.h"
#include "report/markup.h"

namespace escalier::report {

namespace {

constexpr double most_whole = 1e15;  // beyond it digits say nothing

bool drawn(const std::pair<double, double>& point) {
    return plottable(point.first) && plottable(point.second);
}

// Digits that tell neighbours apart.
std::string tick_text(double value, double step) {
    if (std::abs(value) >= most_whole) return fmt::format("{:.3g}", value);
    if (step < 1e-4) {
        if (value == 0) return "0";
        const auto place = [](double number) { return std::floor(std::log10(number) + 1e-9); };
        const double digits = place(std::abs(value)) - place(step) + 1;
        return fmt::format("{:.{}g}", value, static_cast<int>(std::clamp(digits, 1.0, 15.0)));
    }
    const int digits = std::max(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0);
    if (digits == 0 && std::abs(value) >= 10000) return grouped(std::llround(value));
    return fmt::format("{:.{}f}", value, digits);
}

class Drawing {
 public:
    explicit Drawing(const Chart& chart) : chart_(chart) {
        for (const Series& series : chart.series)
            for (const auto& point : series.points)
                if (drawn(point)) x_.include(point.first), y_.include(point.second);
        if (x_.empty()) return;
        if (chart.from_zero) y_.include(0);
        if (x_.span() == 0) x_.low -= 0.5, x_.high += 0.5;
        x_.widen();
        y_.widen();
        const double room = 0.05 * y_.span();
        if (!chart.from_zero) y_.low -= room;
        y_.high += room;
    }

    std::string draw() {
        std::string text = fmt::format(
            "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:g} {:g}\" "
            "role=\"img\" "
            "aria-label=\"{} over steps\">\n",
            chart_.width, chart_.height, escaped(chart_.y_name));
        if (x_.empty())
            return text +
                   fmt::format("<text x=\"{:g}\" y=\"{:g}\" text-anchor=\"middle\">no data</text></svg>\n",
                               chart_.width / 2, chart_.height / 2);
        body_ = std::move(text);
        axes();
        marks();
        for (const Series& series : chart_.series) curve(series);
        legend();
        return body_ + "</svg>\n";
    }

 private:
    static constexpr double left = 64, right = 16, top = 26, bottom = 34;

    double px(double x) const { return left + (x - x_.low) / x_.span() * (chart_.width - left - right); }
    double py(double y) const {
        return chart_.height - bottom - (y - y_.low) / y_.span() * (chart_.height - top - bottom);
    }
    void text(double x, double y, const char* anchor, const std::string& content) {
        body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                             escaped(content));
    }

    void axes() {
        const std::vector<double> ys = round_ticks(y_, chart_.height / 50);
        const double step = ys.size() > 1 ? ys[1] - ys[0] : 1;
        for (const double y : ys) {
            body_ += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", left, py(y),
                                 chart_.width - right);
            text(left - 8, py(y) + 4, "end", tick_text(y, step));
        }
        const std::vector<double> xs = round_ticks(x_, chart_.width / 90);
        const double x_step = xs.size() > 1 ? xs[1] - xs[0] : 1;
        for (const double x : xs) {
            if (std::abs(x - std::round(x)) > 1e-6 * x_step) continue;  // there are no half steps
            body_ +=
                fmt::format("<path class=\"tick\" d=\"M{:.1f} {:.1f}v5\"/>\n", px(x), chart_.height - bottom);
            text(px(x), chart_.height - bottom + 18, "middle", tick_text(x, std::max(1.0, x_step)));
        }
        body_ += fmt::format("<path class=\"tick\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", left,
                             chart_.height - bottom, chart_.width - right);
        text(chart_.width - right, chart_.height - 3, "end", "step");
        text(8, 14, "start", chart_.y_name);
    }

    void marks() {
        for (const Mark& mark : chart_.marks) {
            if (mark.x < x_.low || mark.x > x_.high) continue;
            body_ +=
                fmt::format("<path class=\"mark\" d=\"M{:.1f} {:.1f}V{:.1f}\"><title>{}</title></path>\n",
                            px(mark.x), top, chart_.height - bottom, escaped(mark.label));
        }
    }

    void curve(const Series& series) {
        std::string path;
        bool pen_up = true;
        for (const auto& point : thinned(series)) {
            if (!drawn(point)) {
                pen_up = true;
                continue;
            }
            path += fmt::format("{}{:.1f} {:.1f}", pen_up ? "M" : "L", px(point.first), py(point.second));
            if (pen_up) path += "h0";  // a point between gaps is a dot
            pen_up = false;
        }
        body_ += fmt::format("<path class=\"curve {}\" d=\"{}\"/>\n", series.style, path);
        if (!series.dots) return;
        for (const auto& point : series.points)
            if (drawn(point))
                body_ += fmt::format(
                    "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>step {:g}: {}</title>"
                    "</circle>\n",
                    series.style, px(point.first), py(point.second), point.first, short_number(point.second));
    }

    // Lowest and highest point of each column, in their order.
    std::vector<std::pair<double, double>> thinned(const Series& series) const {
        constexpr std::size_t most = 2000;
        if (series.points.size() <= most) return series.points;
        std::vector<std::pair<double, double>> kept;
        const std::size_t columns = most / 2;
        for (std::size_t column = 0; column < columns; ++column) {
            const std::size_t begin = column * series.points.size() / columns;
            const std::size_t end = (column + 1) * series.points.size() / columns;
            std::size_t low = begin, high = begin;
            for (std::size_t i = begin; i < end; ++i) {
                if (!drawn(series.points[i])) continue;
                if (!drawn(series.points[low]) || series.points[i].second < series.points[low].second)
                    low = i;
                if (!drawn(series.points[high]) || series.points[i].second > series.points[high].second)
                    high = i;
            }
            kept.push_back(series.points[std::min(low, high)]);
            if (low != high) kept.push_back(series.points[std::max(low, high)]);
        }
        return kept;
    }

    void legend() {
        double x = chart_.width - right;
        for (auto series = chart_.series.rbegin(); series != chart_.series.rend(); ++series) {
            if (series->name.empty()) continue;
            text(x, 14, "end", series->name);
            x -= 7.0 * static_cast<double>(series->name.size()) + 8;
            body_ += fmt::format("<path class=\"curve {}\" d=\"M{:.1f} 10h18\"/>\n", series->style, x - 18);
            x -= 36;
        }
    }

    const Chart& chart_;
    AxisRange x_, y_;
    std::string body_;
};

}  // namespace

std::string to_svg(const Chart& chart) {
    return Drawing(chart).draw();
}

Series smoothed(const Series& series, std::size_t window) {
    Series result{"", series.style, {}, false};
    std::vector<std::pair<double, double>> finite;
    for (const auto& point : series.points)
        if (drawn(point)) finite.push_back(point);
    std::vector<double> sums(finite.size() + 1, 0);  // of all points before each one
    for (std::size_t i = 0; i < finite.size(); ++i) sums[i + 1] = sums[i] + finite[i].second;
    const std::size_t side = window / 2;
    for (std::size_t i = 0; i < finite.size(); ++i) {
        // As many on either side, so that the curve lags behind nothing.
        const std::size_t reach = std::min({side, i, finite.size() - 1 - i});
        result.points.emplace_back(
            finite[i].first, (sums[i + reach + 1] - sums[i - reach]) / static_cast<double>(2 * reach + 1));
    }
    return result;
}

std::string short_number(double value) {
    if (!std::isfinite(value)) return "–";
    if (std::abs(value) >= 999.5 && std::abs(value) < most_whole) {
        const double power = std::pow(10, std::max(3.0, std::floor(std::log10(std::abs(value)))) - 2);
        return grouped(std::llround(std::round(value / power) * power));
    }
    return fmt::format("{:.3g}", value);
}

}  // namespace escalier::report
