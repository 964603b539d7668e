#include "report/watch_text.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "core/text.h"

namespace escalier::report {

namespace {

std::string clock_text(double seconds) {
    if (!(std::abs(seconds) < 1e12)) return "?";
    const auto whole = static_cast<std::int64_t>(std::max(0.0, seconds) + 0.5);
    if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string number(const char* format, double value) {
    return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : "?";
}

std::string whole_number(double value) {
    constexpr double most = 1e15;  // beyond it digits say nothing
    return std::abs(value) < most ? grouped(std::llround(value)) : number("{:.3g}", value);
}

// Text of the run's own, without what would move a terminal's cursor.
std::string printable(std::string text) {
    for (char& c : text)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
    return text;
}

std::int64_t done(const RunData& data) {
    return data.steps.empty() ? 0 : data.steps.rbegin()->first;
}

double share_done(const RunData& data) {
    const auto planned = static_cast<double>(data.planned_steps());
    return planned > 0 ? std::min(1.0, static_cast<double>(done(data)) / planned) : 0;
}

std::string step_text(const RunData& data) {
    const std::int64_t planned = data.planned_steps();
    if (planned == 0) return "step " + grouped(done(data));
    return fmt::format("step {}/{} ({:.0f} %)", grouped(done(data)), grouped(planned),
                       100 * share_done(data));
}

std::string speed_text(const StepRow& row) {
    std::string text = whole_number(row.tokens_per_s) + " tok/s | " + number("{:.1f}", row.step_ms) +
                       " ms | bubble " + (std::isfinite(row.bubble) ? percent(row.bubble) : "?");
    if (std::isfinite(row.mfu)) text += " | mfu " + percent(row.mfu);
    return text;
}

std::string loss_text(const StepRow& row) {
    return "loss " + number("{:.6f}", row.loss) + " | norm " + number("{:.4f}", row.grad_norm) + " | lr " +
           number("{:.2e}", row.lr);
}

std::string save_text(const RunData& data, double now) {
    if (data.saves.empty()) return "no checkpoint yet";
    const auto& [step, save] = *data.saves.rbegin();
    return fmt::format("checkpoint of step {}, {} ago", grouped(step), clock_text(now - save.time));
}

const char* state_word(const RunData& data, RunState state) {
    if (state == RunState::running) return "running";
    if (state == RunState::dead) return "died";
    return data.end->exit_code == 0 ? "finished" : data.end->exit_code == 75 ? "stopped early" : "failed";
}

}  // namespace

double seconds_left(const RunData& data) {
    constexpr std::int64_t window = 50;
    if (data.steps.empty() || data.sessions.empty() || data.planned_steps() == 0) return unknown;
    const auto last = std::prev(data.steps.end());
    // The session's first step is slow.
    const auto first =
        data.steps.lower_bound(std::max(data.sessions.back().first_step, last->first - window));
    if (first == data.steps.end() || first->first >= last->first) return unknown;
    const double pace =
        (last->second.time - first->second.time) / static_cast<double>(last->first - first->first);
    return pace * static_cast<double>(data.planned_steps() - last->first);
}

std::vector<std::string> watch_page(const std::string& name, const RunData& data, RunState state, double now,
                                    std::size_t columns) {
    constexpr std::size_t cells = 24;
    const auto filled = static_cast<std::size_t>(std::lround(share_done(data) * cells));
    std::vector<std::string> lines;
    lines.push_back(
        fmt::format("{} | {} | [{}{}] {}{}", printable(name), state_word(data, state),
                    std::string(filled, '#'), std::string(cells - filled, '.'), step_text(data),
                    state == RunState::running ? " | " + clock_text(seconds_left(data)) + " left" : ""));
    if (!data.steps.empty()) {
        const StepRow& row = data.steps.rbegin()->second;
        std::string validation;
        if (!data.validation.empty())
            validation = fmt::format(" | validation {} after step {}",
                                     number("{:.6f}", data.validation.rbegin()->second),
                                     grouped(data.validation.rbegin()->first));
        lines.push_back(loss_text(row) + validation);
        lines.push_back(speed_text(row));
    }
    lines.push_back(save_text(data, now));
    if (!data.warnings.empty())
        lines.push_back(fmt::format("{} warnings, the last one: {}", data.warnings.size(),
                                    printable(data.warnings.back().text)));
    for (std::string& line : lines)
        if (line.size() > columns) line.resize(columns);
    return lines;
}

std::string watch_line(const RunData& data) {
    if (data.steps.empty()) return "no step yet";
    const StepRow& row = data.steps.rbegin()->second;
    return step_text(data) + " | " + loss_text(row) + " | " + speed_text(row) + " | " +
           clock_text(seconds_left(data)) + " left | " +
           (data.saves.empty() ? std::string("no checkpoint yet")
                               : "checkpoint of step " + grouped(data.saves.rbegin()->first));
}

std::string end_text(const RunData& data, RunState state) {
    if (state == RunState::dead)
        return fmt::format(
            "died after step {}: it left no end behind, and nothing holds its folder. Go on with "
            "train --resume auto.",
            grouped(done(data)));
    return fmt::format("{} ({}): {}", state_word(data, state), data.end->exit_code,
                       printable(data.end->reason));
}

}  // namespace escalier::report
