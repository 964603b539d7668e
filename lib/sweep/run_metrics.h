// What a sweep wants to know of a run's metrics.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "report/run_data.h"

namespace escalier::sweep {

// Shares of 1.
struct BubbleMetrics {
    double theory = 0, simulated = 0, measured = 0;
};

struct RunMetrics {
    std::map<std::int64_t, report::StepRow> steps;
    // Medians over the steps that were not the first of their process, which warms up in it; nothing when
    // there are none.
    std::optional<double> step_ms, tokens_per_s, step_bubble;
    std::optional<double> predicted_bubble;
    std::optional<BubbleMetrics> bubble;     // of the last process
    std::optional<std::int64_t> peak_bytes;  // resident, of the rank that had most
    std::optional<int> exit_code;            // nothing: the last process has not ended, or was struck
    std::string end_reason;
};

// A file that is missing, or cut off in a line, has what it has.
RunMetrics read_run_metrics(const std::string& run_folder);

}  // namespace escalier::sweep
