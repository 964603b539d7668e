#include "report/line_plot.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "core/text.h"
#include "report/axis.h"
#include "report/markup.h"

namespace escalier::report {

namespace {

// All lengths are in pixels.
constexpr double width = 560, height = 320, margin = 16, digit = 6.6;
constexpr std::array<const char*, 8> palette = {"#2f6bb0", "#d9822b", "#2e8555", "#b03a48",
                                                "#8b54a0", "#6b4f3a", "#c2528b", "#5c6670"};
constexpr int marker_shapes = 4;

std::string px(double value) {
    char text[32];
    const auto written = std::to_chars(text, text + sizeof text, std::round(100 * value) / 100);
    return {text, written.ptr};
}

std::string number(double value) {
    if (value == std::round(value) && std::abs(value) < 1e15 && std::abs(value) >= 1e4)
        return grouped(static_cast<std::int64_t>(value));
    char text[32];
    const auto written = std::to_chars(text, text + sizeof text, value, std::chars_format::general, 6);
    return {text, written.ptr};
}

bool drawable(const PlotPoint& point) {
    return plottable(point.x) && plottable(point.y);
}

class Picture {
 public:
    explicit Picture(const LinePlot& plot) : plot_(plot) {
        for (const PlotLine& line : plot.lines)
            for (const PlotPoint& point : line.points)
                if (drawable(point)) {
                    x_.include(x_of(point));
                    y_.include(point.y);
                }
        if (plot.from_zero && !y_.empty()) y_.include(0);
        x_.widen();
        y_.widen();
        const double room = 0.04 * (y_.high - y_.low);
        y_.high += room;
        if (!plot.from_zero || y_.low < 0) y_.low -= room;
    }

    std::string draw() {
        captions();
        axes();
        for (const PlotLine& line : plot_.lines) draw_line(line);
        legend();
        const std::string right = px(right_ + margin),
                          bottom = px(std::max(top_ + height + 42, bottom_) + margin);
        return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + right + "\" height=\"" + bottom +
               "\" viewBox=\"0 0 " + right + " " + bottom +
               "\" font-family=\"Helvetica,Arial,sans-serif\" font-size=\"12\" fill=\"#222\">\n<title>" +
               escaped(plot_.title) + "</title>\n<rect width=\"" + right + "\" height=\"" + bottom +
               "\" fill=\"#fff\"/>\n" + body_ + "</svg>\n";
    }

 private:
    double x_of(const PlotPoint& point) const { return plot_.doubling_x ? std::log2(point.x) : point.x; }
    double across(double x) const {
        return left_ + width * (x - x_.low) / (x_.high - x_.low) * 0.96 + 0.02 * width;
    }
    double up(double y) const { return top_ + height * (1 - (y - y_.low) / (y_.high - y_.low)); }

    void text(double x, double y, const std::string& attributes, const std::string& content) {
        body_ += "<text x=\"" + px(x) + "\" y=\"" + px(y) + "\"" + attributes + ">" + escaped(content) +
                 "</text>\n";
    }
    void keep_right(double x, const std::string& content, double size) {
        right_ = std::max(right_, x + 0.56 * size * static_cast<double>(content.size()));
    }

    void captions() {
        text(margin, 26, " font-size=\"16\" font-weight=\"bold\"", plot_.title);
        keep_right(margin, plot_.title, 16.5);
        if (!plot_.note.empty()) {
            text(margin, 46, " fill=\"#555\"", plot_.note);
            keep_right(margin, plot_.note, 12);
            top_ += 20;
        }
    }

    std::string y_text(double y) const { return plot_.percent_y ? number(100 * y) + " %" : number(y); }

    void axes() {
        std::vector<double> marks = round_ticks(y_, 6);
        std::size_t longest = 0;
        for (const double y : marks) longest = std::max(longest, y_text(y).size());
        left_ = margin + 26 + digit * static_cast<double>(longest);
        right_ = std::max(right_, left_ + width);
        std::string lines;
        for (const double y : marks) {
            lines += "M" + px(left_) + " " + px(up(y)) + "h" + px(width);
            text(left_ - 6, up(y) + 4, " text-anchor=\"end\" fill=\"#555\"", y_text(y));
        }
        body_ += "<path stroke=\"#e4e4e4\" fill=\"none\" d=\"" + lines + "\"/>\n";
        std::string ticks;
        for (const auto& [at, label] : x_ticks()) {
            ticks += "M" + px(across(at)) + " " + px(top_ + height) + "v5";
            text(across(at), top_ + height + 19, " text-anchor=\"middle\" fill=\"#555\"", label);
        }
        body_ += "<path stroke=\"#888\" fill=\"none\" d=\"M" + px(left_) + " " + px(top_) + "v" + px(height) +
                 "h" + px(width) + ticks + "\"/>\n";
        text(left_ + width / 2, top_ + height + 42, " text-anchor=\"middle\"", plot_.x_label);
        const std::string middle = px(margin + 6) + " " + px(top_ + height / 2);
        text(margin + 6, top_ + height / 2,
             " text-anchor=\"middle\" transform=\"rotate(-90 " + middle + ")\"", plot_.y_label);
    }

    struct Tick {
        double at;
        std::string label;
    };
    std::vector<Tick> x_ticks() const {
        std::vector<Tick> ticks;
        if (!plot_.doubling_x) {
            for (const double x : round_ticks(x_, 7)) ticks.push_back({x, number(x)});
            return ticks;
        }
        const double step = std::max(1.0, std::ceil((x_.high - x_.low) / 10));
        for (double power = std::ceil(x_.low - 1e-9); power <= x_.high + 1e-9; power += step)
            ticks.push_back({power, number(std::exp2(power))});
        return ticks;
    }

    // What of a line can be told apart.
    std::vector<PlotPoint> visible(const PlotLine& line) const {
        if (static_cast<double>(line.points.size()) <= 4 * width) return line.points;
        std::vector<PlotPoint> kept;
        for (std::size_t begin = 0, end = 0; begin < line.points.size(); begin = end) {
            const auto column = [&](std::size_t i) { return std::floor(across(x_of(line.points[i]))); };
            std::size_t low = begin, high = begin;
            for (end = begin; end < line.points.size() && (end == begin || column(end) == column(begin));
                 ++end) {
                if (!(line.points[end].y >= line.points[low].y)) low = end;
                if (!(line.points[end].y <= line.points[high].y)) high = end;
            }
            kept.push_back(line.points[std::min(low, high)]);
            if (low != high) kept.push_back(line.points[std::max(low, high)]);
        }
        return kept;
    }

    void draw_line(const PlotLine& line) {
        std::string path, shapes;
        bool drawing = false;
        for (const PlotPoint& point : visible(line)) {
            if (!drawable(point)) {
                drawing = false;
                continue;
            }
            const double x = across(x_of(point)), y = up(point.y);
            path += (drawing ? "L" : "M") + px(x) + " " + px(y);
            if (line.marker >= 0) shapes += shape(line.marker, x, y);
            drawing = true;
        }
        body_ += stroke(line, path);
        if (!shapes.empty()) body_ += "<path fill=\"" + colour(line) + "\" d=\"" + shapes + "\"/>\n";
    }

    static std::string colour(const PlotLine& line) {
        return palette[static_cast<std::size_t>(line.colour) % palette.size()];
    }
    static std::string stroke(const PlotLine& line, const std::string& path) {
        return "<path fill=\"none\" stroke=\"" + colour(line) + "\" stroke-width=\"" +
               (line.dashed ? "1.2\" stroke-dasharray=\"5 4" : "1.8") + "\" d=\"" + path + "\"/>\n";
    }
    // Circle, square, triangle, diamond, round (x, y).
    static std::string shape(int marker, double x, double y) {
        switch (marker % marker_shapes) {
            case 0:
                return "M" + px(x - 3.5) + " " + px(y) + "a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z";
            case 1:
                return "M" + px(x - 3.2) + " " + px(y - 3.2) + "h6.4v6.4h-6.4z";
            case 2:
                return "M" + px(x) + " " + px(y - 4.2) + "l4 7h-8z";
            default:
                return "M" + px(x) + " " + px(y - 4.5) + "l4.5 4.5l-4.5 4.5l-4.5 -4.5z";
        }
    }

    void legend() {
        const double x = left_ + width + 18;
        double y = top_ + 10;
        for (const PlotLine& line : plot_.lines) {
            if (line.label.empty()) continue;
            body_ += stroke(line, "M" + px(x) + " " + px(y) + "h24");
            if (line.marker >= 0)
                body_ +=
                    "<path fill=\"" + colour(line) + "\" d=\"" + shape(line.marker, x + 12, y) + "\"/>\n";
            text(x + 31, y + 4, "", line.label);
            keep_right(x + 31, line.label, 12);
            y += 18;
        }
        bottom_ = y;
    }

    const LinePlot& plot_;
    AxisRange x_, y_;
    double top_ = 44, left_ = 0, right_ = 0, bottom_ = 0;
    std::string body_;
};

}  // namespace

std::string to_svg(const LinePlot& plot) {
    return Picture(plot).draw();
}

}  // namespace escalier::report
