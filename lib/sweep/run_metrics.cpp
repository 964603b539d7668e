#include "sweep/run_metrics.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

namespace escalier::sweep {

namespace {

std::optional<double> median(const report::RunData& data, double report::StepRow::*part) {
    std::vector<double> values;
    for (const auto& [step, row] : data.steps) {
        const auto begins = [step = step](const report::Session& session) {
            return session.first_step == step;
        };
        if (std::none_of(data.sessions.begin(), data.sessions.end(), begins) && std::isfinite(row.*part))
            values.push_back(row.*part);
    }
    if (values.empty()) return std::nullopt;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    if (values.size() % 2 == 1) return *middle;
    return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

std::optional<std::int64_t> most_resident(const nlohmann::json& end) {
    const auto peaks = end.find("peak_resident_bytes");
    if (peaks == end.end() || !peaks->is_array()) return std::nullopt;
    std::optional<std::int64_t> most;
    for (const nlohmann::json& peak : *peaks)
        if (peak.is_number_integer()) most = std::max(most.value_or(0), peak.get<std::int64_t>());
    return most;
}

}  // namespace

RunMetrics read_run_metrics(const std::string& run_folder) {
    RunMetrics run;
    const std::string path = run_folder + "/metrics.jsonl";
    if (!std::filesystem::exists(path)) return run;
    report::RunData data;
    report::MetricsReader(path).read(data);
    run.step_ms = median(data, &report::StepRow::step_ms);
    run.tokens_per_s = median(data, &report::StepRow::tokens_per_s);
    run.step_bubble = median(data, &report::StepRow::bubble);
    if (data.start.is_object()) run.predicted_bubble = report::number_in(data.start, "predicted_bubble");
    if (data.bubble.is_object())
        run.bubble = {report::number_in(data.bubble, "theory"), report::number_in(data.bubble, "simulated"),
                      report::number_in(data.bubble, "measured")};
    if (data.last_end.is_object()) run.peak_bytes = most_resident(data.last_end);
    if (data.end) {
        run.exit_code = data.end->exit_code;
        run.end_reason = data.end->reason;
    }
    run.steps = std::move(data.steps);
    return run;
}

}  // namespace escalier::sweep
