// What the runs of a sweep came to.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sweep/agreement.h"
#include "sweep/expand.h"
#include "sweep/folder.h"
#include "sweep/run_metrics.h"

namespace escalier::sweep {

enum class Status { done, not_run, running, interrupted, failed, impossible };

struct Row {
    const Point* point = nullptr;
    Status status = Status::not_run;
    int exit_code = 0;    // of a point that failed
    std::string message;  // why it failed or cannot be
    RunMetrics metrics;
    std::optional<double> predicted_step_ms;
    std::optional<double> bubble, predicted_bubble, theory_bubble;  // theory: (P - 1) / (M + P - 1)
    std::optional<double> final_loss;
    Comparison losses;  // of points that are done
};

struct TableQuestion {
    // The step time that a plan predicts for a resolved spec; null: none is predicted.
    std::function<std::optional<double>(const config::JobSpec&)> predicted_step_ms;
    // Whether the schedule of a resolved spec leaves results as they are, to the bit.
    std::function<bool(const config::JobSpec&)> exact_schedule;
};

// One row per point, in their order, from the run folders as they are.
std::vector<Row> collect(const Sweep& sweep, const SweepFolder& folder, const TableQuestion& question);

// Every column, full digits, shares of 1, bytes, empty cells where something is not known.
std::string to_csv(const Sweep& sweep, const std::vector<Row>& rows);
// For people: columns without any value are left out; below it, why points failed or cannot be.
std::string to_markdown(const Sweep& sweep, const std::vector<Row>& rows);

}  // namespace escalier::sweep
