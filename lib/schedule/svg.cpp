#include "schedule/svg.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "core/text.h"
#include "schedule/memory.h"
#include "schedule/render_text.h"

namespace escalier::schedule {
namespace {

// All lengths are in pixels.
constexpr double margin = 16, widest = 3200, narrowest = 560, font = 11, least_font = 5.5;
constexpr double idle_column = 52, peak_column = 100;  // right ends, from the end of the rows
constexpr double digit_width = 0.6;  // of a usual sans-serif face, in font sizes; rather wide
constexpr std::array<std::string_view, 4> names = {"forward", "backward", "input gradient",
                                                   "weight gradient"};

struct Colour {
    double red, green, blue;
};
constexpr std::array<Colour, 4> colours = {Colour{47, 107, 176}, Colour{46, 133, 85}, Colour{217, 130, 43},
                                           Colour{139, 84, 160}};

std::string hex(const Colour& colour) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text = "#";
    for (const double part : {colour.red, colour.green, colour.blue}) {
        const auto value = static_cast<unsigned>(std::lround(part));
        text += {digits[value / 16], digits[value % 16]};
    }
    return text;
}

// Chunk 0 has the full colour, the last one the lightest.
Colour shade(ActionKind kind, int chunk, int chunks) {
    const Colour full = colours[static_cast<std::size_t>(kind)];
    const double white = chunks > 1 ? 0.55 * chunk / (chunks - 1) : 0;
    const auto mix = [&](double part) { return part + (255 - part) * white; };
    return {mix(full.red), mix(full.green), mix(full.blue)};
}

bool is_light(const Colour& c) {
    return 0.299 * c.red + 0.587 * c.green + 0.114 * c.blue > 140;
}

// Positions are whole hundredths of a pixel, so that relative paths do not drift.
long hundredths(double pixels) {
    return std::lround(100 * pixels);
}

std::string pixels(long value) {
    char text[32];
    const auto written = std::to_chars(text, text + sizeof text, static_cast<double>(value) / 100);
    return {text, written.ptr};
}

std::string px(double value) {
    return pixels(hundredths(value));
}

// Text of the caller's (a file's name) inside XML, which has no control characters.
std::string escaped(const std::string& text) {
    std::string result;
    for (const char c : text) {
        switch (c) {
            case '&':
                result += "&amp;";
                break;
            case '<':
                result += "&lt;";
                break;
            case '>':
                result += "&gt;";
                break;
            case '"':
                result += "&quot;";
                break;
            default:
                result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
        }
    }
    return result;
}

std::string number(double value) {
    std::array<char, 32> text;
    const auto written =
        std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 6);
    return {text.data(), written.ptr};
}

enum class Place : std::uint8_t { whole, upper, lower };  // of a box in its row

class Picture {
 public:
    Picture(const Schedule& schedule, std::vector<const Timeline*> timelines, std::string unit)
        : schedule_(schedule), timelines_(std::move(timelines)), unit_(std::move(unit)) {
        shades_ = schedule.copies() > 1 ? 2 : schedule.chunks;
        peaks_ = peak_bytes(schedule_, ActivationBytes::unit(schedule_.stages()));
        measure();
    }

    // headings: of the timelines; empty where there is one that needs none.
    std::string draw(const std::vector<std::string>& headings, const std::string& note) {
        y_ = margin - 6;
        caption(" font-size=\"16\" font-weight=\"bold\"", title(schedule_), 16);
        if (headings.empty()) caption("", facts(*timelines_[0]), 12);
        if (!note.empty()) caption(" class=\"q\"", note, 12);
        legend();
        for (std::size_t i = 0; i < timelines_.size(); ++i) {
            if (!headings.empty()) {
                y_ += 6;
                caption(" font-weight=\"bold\"", headings[i], 13);
                caption("", facts(*timelines_[i]), 12);
            }
            rows(*timelines_[i]);
            axis(*timelines_[i]);
        }
        return head() + body_ + "</svg>\n";
    }

 private:
    int shade_of(const Action& action) const {
        return schedule_.copies() > 1 ? schedule_.copy_of(action.micro_batch) : action.stage / schedule_.pp;
    }

    struct Extent {
        double usual = 1, longest = 0;
    };
    // Of actions: a short one that is not rare (W may be tiny), and the longest.
    Extent durations() const {
        std::vector<double> single;
        Extent result;
        for (const auto& row : timelines_[0]->ranks)
            for (std::size_t i = 0; i < row.size(); ++i) {
                const double duration = row[i].end - row[i].start;
                const bool pair = row[i].action.overlaps_next || (i > 0 && row[i - 1].action.overlaps_next);
                if (!pair && duration > 0) single.push_back(duration);
                result.longest = std::max(result.longest, duration);
            }
        if (single.empty()) return {result.longest > 0 ? result.longest : 1, result.longest};
        const auto at = single.begin() + static_cast<std::ptrdiff_t>(single.size() * 2 / 5);
        std::nth_element(single.begin(), at, single.end());
        result.usual = *at;
        return result;
    }

    void measure() {
        const double ranks = schedule_.pp;
        const bool pairs = schedule_.has_overlaps();
        row_ = ranks <= 8 ? 26 : ranks <= 16 ? 22 : ranks <= 32 ? 18 : 14;
        if (pairs) row_ *= 1.3;
        gap_ = ranks <= 16 ? 3 : 2;
        digits_ = static_cast<double>(std::to_string(schedule_.micro_batches - 1).size());
        const auto [usual, longest] = durations();
        double makespan = 0;
        for (const Timeline* timeline : timelines_) makespan = std::max(makespan, timeline->makespan);
        const double wanted = makespan / usual * std::max(15.0, digits_ * digit_width * font + 6);
        width_ = std::clamp(wanted, narrowest, widest);
        scale_ = makespan > 0 ? width_ / makespan : 0;
        const double fits = (usual * scale_ - 2) / (digits_ * digit_width);
        font_ = std::clamp(std::min(fits, 0.7 * row_ * (pairs ? 0.5 : 1)), least_font, font);
        number_width_ = digits_ * digit_width * font_ + 1;
        numbers_fit_ = longest * scale_ >= number_width_;
        left_ = margin + 12 + 7 * static_cast<double>(5 + std::to_string(schedule_.pp - 1).size());
    }

    std::string head() const {
        const double right = std::max(left_ + width_ + peak_column, text_right_) + margin;
        std::string text =
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + px(right) + "\" height=\"" + px(y_) +
            "\" viewBox=\"0 0 " + px(right) + " " + px(y_) +
            "\" font-family=\"Helvetica,Arial,sans-serif\" font-size=\"12\">\n<title>" +
            escaped(title(schedule_)) + "</title>\n<style>\npath{fill:none;stroke-width:" + px(row_) +
            "}\n.h{stroke-width:" + px(row_ / 2 - 0.5) + "}\n.n{text-anchor:middle;font-size:" + px(font_) +
            "px;fill:#fff}\n.n .d{fill:#222}\n.q{fill:#555}\n.e{text-anchor:end;fill:#555}\n";
        for (int kind = 0; kind < 4; ++kind)
            for (int chunk = 0; chunk < shades_; ++chunk) {
                const std::string colour = hex(shade(static_cast<ActionKind>(kind), chunk, shades_));
                text += "." + class_of(static_cast<ActionKind>(kind), chunk) + "{stroke:" + colour + "}\n";
            }
        return text + "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
    }

    static std::string class_of(ActionKind kind, int chunk) {
        return std::string(1, "FBIW"[static_cast<int>(kind)]) + std::to_string(chunk);
    }

    void text(double x, double y, const std::string& attributes, const std::string& content) {
        body_ += "<text x=\"" + px(x) + "\" y=\"" + px(y) + "\"" + attributes + ">" + escaped(content) +
                 "</text>\n";
    }
    void caption(const std::string& attributes, const std::string& content, double size) {
        y_ += size + 7;
        text(margin, y_, attributes, content);
        text_right_ = std::max(text_right_, margin + 0.56 * size * static_cast<double>(content.size()));
    }

    std::string facts(const Timeline& timeline) const {
        const double most = peaks_.empty() ? 0 : *std::max_element(peaks_.begin(), peaks_.end());
        return "idle " + percent(timeline.idle_share) + " (" + percent(timeline.span_idle_share) +
               " without the ranks' stagger), makespan " + number(timeline.makespan) +
               (unit_.empty() ? "" : " " + unit_) + ", peak memory " + number(most) +
               " activations of a stage" + whole_rank(most);
    }

    // Where a rank holds several stages: what that is in activations of all its stages.
    std::string whole_rank(double peak) const {
        if (schedule_.stages() == schedule_.pp) return "";
        return " = " + number(peak * schedule_.pp / schedule_.stages()) + " of a whole rank";
    }

    void legend() {
        constexpr double box = 14;
        y_ += 10;
        double x = margin;
        const double middle = y_ + box / 2;
        const auto swatch = [&](ActionKind kind, int chunk, double y, double height) {
            body_ += "<path class=\"" + class_of(kind, chunk) + "\" style=\"stroke-width:" + px(height) +
                     "\" d=\"M" + px(x) + " " + px(y) + "h" + px(box) + "\"/>\n";
        };
        const auto label = [&](const std::string& content) {
            text(x + 5, y_ + box - 3, "", content);
            x += 5 + 6.6 * static_cast<double>(content.size()) + 16;
        };
        for (int kind = 0; kind < 4; ++kind) {
            if (!used(static_cast<ActionKind>(kind))) continue;
            for (int chunk = 0; chunk < shades_; ++chunk, x += box)
                swatch(static_cast<ActionKind>(kind), chunk, middle, box);
            label(std::string(names[static_cast<std::size_t>(kind)]));
        }
        if (schedule_.has_overlaps()) {
            swatch(ActionKind::F, 0, middle - box / 4, box / 2);
            swatch(ActionKind::B, shades_ - 1, middle + box / 4, box / 2);
            x += box;
            label("overlapped pair");
        }
        if (shades_ > 1)
            label(schedule_.copies() > 1 ? "shades: copy 0, copy 1"
                                         : "shades: chunk 0 to " + std::to_string(shades_ - 1));
        if (numbers_fit_) label("numbers: micro-batches");
        text_right_ = std::max(text_right_, x);
        y_ += box + 6;
    }

    bool used(ActionKind kind) const {
        for (const auto& row : schedule_.ranks)
            for (const Action& action : row)
                if (action.kind == kind) return true;
        return false;
    }

    void rows(const Timeline& timeline) {
        y_ += 22;
        const double right = left_ + width_;
        text(right + idle_column, y_ - 4, " class=\"e\"", "idle");
        text(right + peak_column, y_ - 4, " class=\"e\"", "peak");
        for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
            const double middle = y_ + row_ / 2;
            text(left_ - 8, middle + 4, " class=\"e\"", "rank " + std::to_string(rank));
            text(right + idle_column, middle + 4, " class=\"e\"", percent(timeline.idle[rank]));
            text(right + peak_column, middle + 4, " class=\"e\"", number(peaks_[rank]));
            body_ += "<g transform=\"translate(" + px(left_) + " " + px(middle) +
                     ")\">\n<path stroke=\"#eee\" " + "d=\"M0 0h" + px(width_) + "\"/>\n";
            boxes(timeline.ranks[rank]);
            body_ += "</g>\n";
            y_ += row_ + gap_;
        }
    }

    struct Segments {
        std::string path;
        long end = 0;  // of the last box
    };

    void boxes(const std::vector<TimedAction>& row) {
        std::map<std::pair<Place, std::string>, Segments> paths;
        std::string numbers;
        bool second = false;
        for (const TimedAction& timed : row) {
            const Place place = second                       ? Place::lower
                                : timed.action.overlaps_next ? Place::upper
                                                             : Place::whole;
            second = timed.action.overlaps_next;
            // A gap between boxes, unless it would eat them.
            const long begin = hundredths(timed.start * scale_);
            const long full = hundredths(timed.end * scale_) - begin;
            if (full <= 0) continue;
            const long width = full - std::min(100L, full / 6);
            const int chunk = shade_of(timed.action);
            Segments& segments = paths[{place, class_of(timed.action.kind, chunk)}];
            if (segments.path.empty())
                segments.path = "M" + pixels(begin) + " " + px(offset(place));
            else
                segments.path += "m" + pixels(begin - segments.end) + " 0";
            segments.path += "h" + pixels(width);
            segments.end = begin + width;
            add_number(numbers, timed.action, place, begin + width / 2, full);
        }
        for (const auto& [key, segments] : paths)
            body_ += "<path class=\"" + key.second + (key.first == Place::whole ? "" : " h") + "\" d=\"" +
                     segments.path + "\"/>\n";
        if (!numbers.empty()) body_ += "<g class=\"n\">" + numbers + "</g>\n";
    }

    double offset(Place place) const {
        return place == Place::whole ? 0 : place == Place::upper ? -row_ / 4 - 0.25 : row_ / 4 + 0.25;
    }

    void add_number(std::string& numbers, const Action& action, Place place, long middle, long width) const {
        if (static_cast<double>(width) < 100 * number_width_) return;
        const bool dark = is_light(shade(action.kind, shade_of(action), shades_));
        numbers += std::string("<text") + (dark ? " class=\"d\"" : "") + " x=\"" + pixels(middle) +
                   "\" y=\"" + px(offset(place) + 0.36 * font_) + "\">" + std::to_string(action.micro_batch) +
                   "</text>";
    }

    // Ticks at round times, about 100 pixels apart.
    void axis(const Timeline& timeline) {
        y_ += 4;
        if (timeline.makespan > 0) {
            const double wanted = 100 / scale_, power = std::pow(10, std::floor(std::log10(wanted)));
            const double step = (wanted < 2 * power ? 2 : wanted < 5 * power ? 5 : 10) * power;
            std::string ticks;
            for (double at = 0; at <= timeline.makespan * (1 + 1e-9); at += step) {
                const double x = left_ + at * scale_;
                ticks += "M" + px(x) + " " + px(y_) + "v5";
                text(x, y_ + 17, " class=\"q\" text-anchor=\"middle\"", number(at));
            }
            body_ += "<path style=\"stroke:#888;stroke-width:1\" d=\"" + ticks + "\"/>\n";
        }
        y_ += 24 + margin / 2;
    }

    const Schedule& schedule_;
    std::vector<const Timeline*> timelines_;  // those on one scale
    std::string unit_;
    std::vector<double> peaks_;
    int shades_ = 1;
    double row_ = 0, gap_ = 0, left_ = 0, width_ = 0, scale_ = 0, font_ = 0, digits_ = 1, number_width_ = 0;
    bool numbers_fit_ = false;
    double y_ = 0, text_right_ = 0;
    std::string body_;
};

}  // namespace

std::string to_svg(const Schedule& schedule, const Timeline& timeline, const std::string& note) {
    return Picture(schedule, {&timeline}, "").draw({}, note);
}

std::string to_svg(const Schedule& schedule, const std::vector<Panel>& panels, const std::string& unit,
                   const std::string& note) {
    std::vector<const Timeline*> timelines;
    std::vector<std::string> headings;
    for (const Panel& panel : panels) {
        timelines.push_back(&panel.timeline);
        headings.push_back(panel.heading);
    }
    return Picture(schedule, timelines, unit).draw(headings, note);
}

}  // namespace escalier::schedule
