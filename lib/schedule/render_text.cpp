#include "schedule/render_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <numeric>
#include <sstream>
#include <string_view>
#include <vector>

#include "core/text.h"

namespace escalier::schedule {
namespace {

constexpr std::size_t row_width = 200;  // columns of a panel, without what stands around
constexpr double most_lines = 130;      // of all panels

// What one cell of the picture shows: an action, or both of a pair.
struct Box {
    std::string label;
    char letter;
    double start, end;
};

std::string label(const Schedule& schedule, const Action& action) {
    const std::string full = cell(action);
    return schedule.chunks > 1 ? full : full.substr(full.find_first_of("FBIW"));
}

char letter(const Action& action) {
    return "FBIW"[static_cast<int>(action.kind)];
}

std::vector<std::vector<Box>> boxes_of(const Schedule& schedule, const Timeline& timeline) {
    std::vector<std::vector<Box>> rows;
    for (const auto& timed_row : timeline.ranks) {
        auto& row = rows.emplace_back();
        bool second = false;
        for (const TimedAction& timed : timed_row) {
            const std::string text = label(schedule, timed.action);
            if (second) {
                Box& pair = row.back();
                pair = {pair.label + "&" + text, '&', pair.start, std::max(pair.end, timed.end)};
            } else {
                row.push_back({text, letter(timed.action), timed.start, timed.end});
            }
            second = timed.action.overlaps_next;
        }
    }
    return rows;
}

// Columns per unit of time at which a label and a blank fit into their box: into every box, into most of
// them.
std::vector<double> scales_of(const std::vector<std::vector<Box>>& rows) {
    std::vector<double> needed;
    for (const auto& row : rows)
        for (const Box& box : row)
            if (box.end > box.start)
                needed.push_back(static_cast<double>(box.label.size() + 1) / (box.end - box.start));
    if (needed.empty()) return {0};
    std::sort(needed.begin(), needed.end());
    return {needed.back(), needed[(needed.size() - 1) / 2]};
}

// The full rows, every box with its label or, where that does not fit, its letter.
std::vector<std::string> full_rows(const std::vector<std::vector<Box>>& rows, double makespan, double scale) {
    const auto column = [&](double time) { return static_cast<std::size_t>(std::llround(time * scale)); };
    std::vector<std::string> texts;
    for (const auto& row : rows) {
        std::string text(column(makespan), '.');
        for (const Box& box : row) {
            const std::size_t begin = column(box.start), width = column(box.end) - begin;
            if (width == 0) continue;
            std::string shown = box.label.size() < width ? box.label : std::string(1, box.letter);
            shown.resize(width, ' ');
            text.replace(begin, width, shown);
        }
        texts.push_back(std::move(text));
    }
    return texts;
}

// One letter per column. What a column has no room for counts in the next ones, so that letters and time are
// in proportion.
std::vector<std::string> overview_rows(const std::vector<std::vector<Box>>& rows, double makespan) {
    constexpr std::string_view states = ".FBIW&";
    const double slice = makespan / row_width;
    std::vector<std::string> texts;
    for (const auto& row : rows) {
        std::vector<std::array<double, states.size()>> shares(row_width);
        for (const Box& box : row) {
            const std::size_t state = states.find(box.letter);
            const auto last = std::min<std::size_t>(row_width - 1, static_cast<std::size_t>(box.end / slice));
            for (auto at = static_cast<std::size_t>(box.start / slice); at <= last; ++at) {
                const double begin = static_cast<double>(at) * slice;
                shares[at][state] += std::min(box.end, begin + slice) - std::max(box.start, begin);
            }
        }
        std::string text;
        std::array<double, states.size()> open{};
        for (const auto& share : shares) {
            const double busy = std::accumulate(share.begin(), share.end(), 0.0);
            for (std::size_t state = 0; state < states.size(); ++state)
                open[state] += state == 0 ? slice - busy : share[state];
            const auto largest = std::max_element(open.begin(), open.end());
            *largest -= slice;
            text += states[static_cast<std::size_t>(largest - open.begin())];
        }
        texts.push_back(std::move(text));
    }
    return texts;
}

// Where a panel that begins at `begin` ends: where no label is cut, if there is such a column in its last
// third.
std::size_t panel_end(const std::vector<std::string>& texts, std::size_t begin) {
    const std::size_t length = texts.front().size();
    if (length <= begin + row_width) return length;
    for (std::size_t end = begin + row_width; end > begin + row_width * 2 / 3; --end)
        if (std::all_of(texts.begin(), texts.end(), [&](const std::string& text) {
                return text[end - 1] == ' ' || text[end - 1] == '.';
            }))
            return end;
    return begin + row_width;
}

std::string panels(const std::vector<std::string>& texts, const Timeline& timeline, double scale) {
    const std::size_t digits = std::to_string(texts.size() - 1).size();
    const std::size_t length = texts.front().size();
    std::ostringstream out;
    for (std::size_t begin = 0, end = 0; begin == 0 || begin < length; begin = end) {
        end = panel_end(texts, begin);
        if (begin > 0) out << "\n";
        if (end - begin < length)
            out << "from " << static_cast<double>(begin) / scale << " to "
                << (end == length ? timeline.makespan : static_cast<double>(end) / scale) << "\n";
        for (std::size_t rank = 0; rank < texts.size(); ++rank) {
            out << "rank " << std::setw(static_cast<int>(digits)) << rank << "  "
                << texts[rank].substr(begin, end - begin);
            if (end == length) out << "  idle " << percent(timeline.idle[rank]);
            out << "\n";
        }
        if (length == 0) break;
    }
    return out.str();
}

}  // namespace

std::string title(const Schedule& schedule) {
    std::string text = schedule.kind + ": " + std::to_string(schedule.pp) + " pipeline ranks, ";
    if (schedule.copies() > 1)
        text += "two copies of the model, ";
    else if (schedule.chunks > 1)
        text += std::to_string(schedule.chunks) + " chunks per rank, ";
    return text + std::to_string(schedule.micro_batches) + " micro-batches";
}

std::string staircase(const Schedule& schedule, const Timeline& timeline) {
    const auto rows = boxes_of(schedule, timeline);
    std::string text;
    for (const double scale : scales_of(rows)) {
        const double pages = std::ceil(timeline.makespan * scale / row_width);
        if (!text.empty() || pages * static_cast<double>(rows.size() + 2) > most_lines) continue;
        text = panels(full_rows(rows, timeline.makespan, scale), timeline, scale);
    }
    if (text.empty()) {
        std::ostringstream head;
        head << "overview: one column is " << timeline.makespan / row_width
             << " of time, letters are in proportion; csv, svg and json show every action\n";
        text = head.str() +
               panels(overview_rows(rows, timeline.makespan), timeline, row_width / timeline.makespan);
    }
    return text + "idle " + percent(timeline.idle_share) + "\n";
}

}  // namespace escalier::schedule
