// The order files of tests/golden/schedule_orders.
#pragma once

#include <string>
#include <vector>

#include "schedule/action.h"

namespace escalier::schedule {

Schedule read_order(const std::string& file);
std::vector<std::string> order_files(const std::string& prefix);  // sorted; "" for all

struct Metrics {
    std::string file, set;
    double forward, input_gradient, weight_gradient, transfer, pair_factor;
    double makespan, span, span_idle_share;
    std::vector<double> idle;
    std::vector<int> peak_until_weight, peak_until_input;
    int messages;
    std::vector<int> most_unconsumed;
};
std::vector<Metrics> read_metrics();

}  // namespace escalier::schedule
