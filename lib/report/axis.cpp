#include "report/axis.h"

#include <algorithm>
#include <cmath>

namespace escalier::report {

bool plottable(double value) {
    return std::abs(value) < 1e300;
}

void AxisRange::include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
}

void AxisRange::widen() {
    constexpr double tiny = 1e-290;  // below it a tenth of a number may be zero
    if (empty()) low = 0, high = 1;
    const double most = std::max(std::abs(low), std::abs(high));
    if (span() > 1e-9 * most && span() > tiny) return;
    const double room = most > tiny ? most / 10 : 1;
    low -= room;
    high += room;
}

std::vector<double> round_ticks(const AxisRange& range, double count) {
    const double wanted = range.span() / count, power = std::pow(10, std::floor(std::log10(wanted)));
    const double step = (wanted <= power       ? 1
                         : wanted <= 2 * power ? 2
                         : wanted <= 5 * power ? 5
                                               : 10) *
                        power;
    std::vector<double> ticks;
    const double slack = 1e-9 * range.span();
    for (double at = std::ceil((range.low - slack) / step); at * step <= range.high + slack; ++at)
        ticks.push_back(at * step + 0.0);  // never -0
    return ticks;
}

}  // namespace escalier::report
