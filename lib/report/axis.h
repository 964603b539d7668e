// The numbers that an axis of a chart spans, and the round ones among them that it names.
#pragma once

#include <limits>
#include <vector>

namespace escalier::report {

// Far enough from the ends of the numbers for differences to be numbers too.
bool plottable(double value);

struct AxisRange {  // of plottable numbers
    double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();

    void include(double value);
    bool empty() const { return low > high; }
    double span() const { return high - low; }
    // With nothing in it, one value alone, or values too close to tell apart there is no scale to draw by:
    // gives it room on both sides.
    void widen();
};

// About `count` round values inside a range that widen() has seen, ascending, equally far apart.
std::vector<double> round_ticks(const AxisRange& range, double count);

}  // namespace escalier::report
