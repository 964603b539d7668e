#include "schedule/render.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "core/error.h"

namespace escalier::schedule {
namespace {

std::string percent(double share) {
    std::ostringstream out;
    out << std::fixed << std::setprecision(1) << 100 * share << " %";
    return out.str();
}

std::string label(const Schedule& schedule, const Action& action) {
    const std::string full = cell(action);
    return schedule.chunks > 1 ? full : full.substr(full.find_first_of("FBIW"));
}

// Characters per unit of time so that every label and a blank fit into its action's time, unless the rows
// would become absurdly long; then labels are cut.
double columns_per_unit(const Schedule& schedule, const Timeline& timeline) {
    double columns = 0;
    for (const auto& row : timeline.ranks)
        for (const TimedAction& timed : row)
            if (timed.end > timed.start)
                columns = std::max(columns, static_cast<double>(label(schedule, timed.action).size() + 1) /
                                                (timed.end - timed.start));
    constexpr double widest = 20000;
    return timeline.makespan > 0 ? std::min(columns, widest / timeline.makespan) : 0;
}

[[noreturn]] void refuse_cell(const std::string& name, int line, const std::string& text,
                              const std::string& why) {
    throw ConfigError(name + ":" + std::to_string(line) + ": cell `" + text + "` " + why);
}

std::string trimmed(const std::string& text) {
    const auto first = text.find_first_not_of(" \t\r");
    if (first == std::string::npos) return "";
    return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

Action parse_cell(const std::string& name, int line, const std::string& text) {
    constexpr int most = 1 << 20;
    Action action{};
    const char* end = text.data() + text.size();
    const auto stage = std::from_chars(text.data(), end, action.stage);
    const std::string letters = "FBIW";
    const auto letter = stage.ptr == end ? std::string::npos : letters.find(*stage.ptr);
    if (stage.ec != std::errc() || letter == std::string::npos)
        refuse_cell(name, line, text,
                    "is no compute cell; write stage, F, B, I or W, micro-batch, as in 0F3");
    action.kind = static_cast<ActionKind>(letter);
    const auto micro_batch = std::from_chars(stage.ptr + 1, end, action.micro_batch);
    if (micro_batch.ec != std::errc() || micro_batch.ptr != end || action.stage < 0 ||
        action.micro_batch < 0 || action.stage >= most || action.micro_batch >= most)
        refuse_cell(name, line, text,
                    "is no compute cell; write stage, F, B, I or W, micro-batch, as in 0F3");
    return action;
}

// Loop or V, whichever puts every stage where it stands.
void find_placement(Schedule& schedule) {
    for (const Placement placement : {Placement::loop, Placement::v}) {
        schedule.placement = placement;
        bool fits = true;
        for (int rank = 0; rank < schedule.pp; ++rank)
            for (const Action& action : schedule.ranks[static_cast<std::size_t>(rank)])
                fits = fits && schedule.rank_of(action.stage) == rank;
        if (fits) return;
    }
    throw ConfigError(
        schedule.kind + ": its " + std::to_string(schedule.stages()) + " stages lie on " +
        std::to_string(schedule.pp) +
        " ranks (lines) neither in a loop (stage s on rank s mod ranks) nor in a V (0 1 ... 1 0); "
        "move every stage's cells to the line of its rank");
}

}  // namespace

std::string staircase(const Schedule& schedule, const Timeline& timeline) {
    const double scale = columns_per_unit(schedule, timeline);
    const auto column = [&](double time) { return static_cast<std::size_t>(std::llround(time * scale)); };
    const std::size_t digits = std::to_string(schedule.pp - 1).size();
    std::string text;
    for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
        std::string row(column(timeline.makespan), '.');
        for (const TimedAction& timed : timeline.ranks[rank]) {
            const std::size_t begin = column(timed.start), width = column(timed.end) - begin;
            const std::string name = label(schedule, timed.action);
            row.replace(begin, width, (name + std::string(width, ' ')).substr(0, width));
        }
        const std::string number = std::to_string(rank);
        text += "rank " + std::string(digits - number.size(), ' ') + number + "  " + row + "  idle " +
                percent(timeline.idle[rank]) + "\n";
    }
    return text + "idle " + percent(timeline.idle_share) + "\n";
}

std::string to_csv(const Schedule& schedule) {
    std::string text;
    for (const auto& actions : schedule.ranks) {
        for (std::size_t i = 0; i < actions.size(); ++i) {
            if (i > 0) text += ',';
            text += cell(actions[i]);
        }
        text += '\n';
    }
    return text;
}

Schedule from_csv(std::istream& in, const std::string& name) {
    Schedule schedule;
    schedule.kind = name;
    int last_stage = -1, last_micro_batch = -1, number = 0;
    std::string line;
    while (std::getline(in, line)) {
        ++number;
        if (trimmed(line).empty()) continue;
        auto& actions = schedule.ranks.emplace_back();
        std::istringstream cells(line);
        std::string text;
        while (std::getline(cells, text, ',')) {
            text = trimmed(text);
            if (text.empty()) continue;
            actions.push_back(parse_cell(name, number, text));
            last_stage = std::max(last_stage, actions.back().stage);
            last_micro_batch = std::max(last_micro_batch, actions.back().micro_batch);
        }
    }
    schedule.pp = static_cast<int>(schedule.ranks.size());
    if (last_stage < 0)
        throw ConfigError(name + ": it holds no cell; write one line per rank, cells like 0F3");
    if ((last_stage + 1) % schedule.pp != 0)
        throw ConfigError(name + ": " + std::to_string(last_stage + 1) + " stages on " +
                          std::to_string(schedule.pp) +
                          " ranks (lines); every rank must hold the same number of stages");
    schedule.chunks = (last_stage + 1) / schedule.pp;
    schedule.micro_batches = last_micro_batch + 1;
    find_placement(schedule);
    return schedule;
}

}  // namespace escalier::schedule
