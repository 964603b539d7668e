// Curves over steps as SVG, to stand inside a page whose style sheet colours them.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace escalier::report {

struct Series {
    std::string name;
    std::string style;                              // class of the curve: c1 to c4, faint
    std::vector<std::pair<double, double>> points;  // by ascending x; what is not finite is a gap
    bool dots = false;                              // points on the line
};

struct Mark {
    double x;
    std::string label;
};

struct Chart {
    std::string y_name;
    std::vector<Series> series;
    std::vector<Mark> marks;  // upright lines
    bool from_zero = false;   // the axis starts at 0
    double width = 1040, height = 300;
};

// Curves of very many points are thinned to the lowest and highest of each pixel or two.
std::string to_svg(const Chart& chart);

// The mean of up to `window` points round each one.
Series smoothed(const Series& series, std::size_t window);

// 1234.5 -> "1,230", 0.00123 -> "0.00123": three digits that count
std::string short_number(double value);

}  // namespace escalier::report
