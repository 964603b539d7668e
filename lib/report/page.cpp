#include "report/page.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <string_view>

#include "core/text.h"
#include "report/chart.h"
#include "report/markup.h"
#include "report/page_style.h"
#include "report/page_tables.h"

namespace escalier::report {

namespace {

std::string time_text(double unix_time) {
    constexpr double year_10000 = 253402300800;
    if (!(unix_time >= 0 && unix_time < year_10000)) return "–";
    const auto seconds = static_cast<std::time_t>(unix_time);
    std::tm time{};
    gmtime_r(&seconds, &time);
    char text[40];
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &time);
    return text;
}

std::string duration_text(double seconds) {
    if (!(seconds >= 0 && seconds < 1e12)) return "–";
    const auto whole = static_cast<std::int64_t>(seconds + 0.5);
    if (whole < 120) return fmt::format("{:.1f} s", seconds);
    if (whole < 7200) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
    return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

struct Badge {
    const char* style;
    std::string text;
};

Badge badge_of(const RunFolder& run) {
    if (run.state == RunState::running) return {"wait", "running"};
    if (run.state == RunState::dead) return {"bad", "died: no end was written"};
    switch (run.data.end->exit_code) {
        case 0:
            return {"good", "finished"};
        case 75:
            return {"wait", "stopped early (75)"};
        default:
            return {"bad", fmt::format("failed ({})", run.data.end->exit_code)};
    }
}

class Page {
 public:
    explicit Page(const RunFolder& run) : run_(run), data_(run.data) {}

    std::string write() {
        out_ =
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
            escaped(run_.name) + " – Escalier</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>" +
            page_style + "</style>\n</head>\n<body>\n";
        heading();
        tiles();
        loss();
        speed();
        split();
        picture();
        out_ += memory_section(run_);
        out_ += ranks_section(run_);
        saves();
        warnings();
        config();
        footer();
        return out_ + "</body>\n</html>\n";
    }

 private:
    void heading() {
        const Badge badge = badge_of(run_);
        out_ += fmt::format("<header><h1>{}</h1><span class=\"badge {}\">{}</span></header>\n",
                            escaped(run_.name), badge.style, escaped(badge.text));
        if (data_.end && !data_.end->reason.empty() && data_.end->exit_code != 0)
            out_ += "<p class=\"" + std::string(badge.style) + "\">" + escaped(data_.end->reason) + "</p>\n";
        std::string facts = escaped(run_.path);
        if (!data_.sessions.empty()) facts += " · started " + time_text(data_.sessions.front().time);
        if (data_.sessions.size() > 1) facts += fmt::format(" · {} sessions", data_.sessions.size());
        out_ += "<p class=\"quiet\">" + facts + "</p>\n";
    }

    void tile(const std::string& value, const std::string& name) {
        out_ += "<div class=\"tile\"><b>" + escaped(value) + "</b><span>" + escaped(name) + "</span></div>\n";
    }

    // Median over the steps, the first one of each session left out where there are others.
    double median(double StepRow::*member) const {
        std::vector<double> values;
        for (const auto& [step, row] : data_.steps) {
            const bool first = std::any_of(data_.sessions.begin(), data_.sessions.end(),
                                           [&, at = step](const Session& s) { return s.first_step == at; });
            if (std::isfinite(row.*member) && (!first || data_.steps.size() == 1))
                values.push_back(row.*member);
        }
        if (values.empty()) return unknown;
        const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
        std::nth_element(values.begin(), middle, values.end());
        return *middle;
    }

    void tiles() {
        out_ += "<div class=\"tiles\">\n";
        const std::int64_t done = data_.steps.empty() ? 0 : data_.steps.rbegin()->first;
        tile(data_.planned_steps() ? fmt::format("{} / {}", grouped(done), grouped(data_.planned_steps()))
                                   : grouped(done),
             "steps");
        if (!data_.steps.empty()) tile(fmt::format("{:.4f}", data_.steps.rbegin()->second.loss), "last loss");
        const auto best = std::min_element(
            data_.validation.begin(), data_.validation.end(), [](const auto& a, const auto& b) {
                return a.second < b.second || (std::isnan(b.second) && !std::isnan(a.second));
            });
        if (best != data_.validation.end() && std::isfinite(best->second)) {
            tile(fmt::format("{:.4f}", best->second),
                 fmt::format("best validation loss, step {}", grouped(best->first)));
        }
        tile(short_number(median(&StepRow::tokens_per_s)), "tokens/s, median");
        tile(short_number(median(&StepRow::step_ms)) + " ms", "a step, median");
        if (const double bubble = median(&StepRow::bubble); std::isfinite(bubble))
            tile(percent(bubble), "bubble, median");
        if (const double mfu = median(&StepRow::mfu); std::isfinite(mfu)) tile(percent(mfu), "MFU, median");
        if (!data_.steps.empty())
            tile(grouped(data_.steps.rbegin()->second.consumed_tokens), "tokens trained on");
        if (const double parameters = number_in(data_.start, "parameters");
            parameters >= 0 && parameters < 9e15)
            tile(grouped(static_cast<std::int64_t>(parameters)), "parameters");
        if (data_.start.is_object() && data_.start.contains("grid") && data_.start["grid"].is_string())
            tile(data_.start["grid"].get<std::string>(), "tensor x pipeline x data");
        out_ += "</div>\n";
    }

    Series series_of(double StepRow::*member, const std::string& name, const std::string& style) const {
        Series series{name, style, {}, false};
        for (const auto& [step, row] : data_.steps)
            series.points.emplace_back(static_cast<double>(step), row.*member);
        return series;
    }

    std::vector<Mark> resumes() const {
        std::vector<Mark> marks;
        for (std::size_t i = 1; i < data_.sessions.size(); ++i) {
            const Session& session = data_.sessions[i];
            marks.push_back(
                {static_cast<double>(session.first_step) - 0.5,
                 fmt::format("resumed with step {}, {}", session.first_step, time_text(session.time))});
        }
        return marks;
    }

    void loss() {
        out_ += "<h2>Loss</h2>\n";
        Chart chart;
        chart.y_name = "loss, nats per token";
        const Series raw = series_of(&StepRow::loss, "training", "faint");
        chart.series.push_back(raw);
        if (raw.points.size() > 40) {
            const std::size_t window = 2 * std::min<std::size_t>(raw.points.size() / 40, 100) + 1;
            Series mean = smoothed(raw, window);
            mean.name = fmt::format("mean of {}", window);
            mean.style = "c1";
            chart.series.push_back(std::move(mean));
        } else {
            chart.series.back().style = "c1";
        }
        if (!data_.validation.empty()) {
            Series validation{"validation", "c2", {}, true};
            for (const auto& [step, value] : data_.validation)
                validation.points.emplace_back(static_cast<double>(step), value);
            chart.series.push_back(std::move(validation));
        }
        chart.marks = resumes();
        out_ += to_svg(chart);
        if (chart.marks.empty()) return;
        out_ += "<ul class=\"quiet\">";
        for (std::size_t i = 1; i < data_.sessions.size(); ++i)
            out_ +=
                fmt::format("<li>resumed with step {} at {}, from {}</li>\n", data_.sessions[i].first_step,
                            time_text(data_.sessions[i].time),
                            data_.sessions[i].resumed_from.empty() ? "initial weights"
                                                                   : escaped(data_.sessions[i].resumed_from));
        out_ += "</ul>\n";
    }

    void small_chart(const std::string& name, double StepRow::*member, bool from_zero) {
        Chart chart;
        chart.y_name = name;
        chart.series.push_back(series_of(member, "", "c1"));
        chart.marks = resumes();
        chart.from_zero = from_zero;
        chart.width = 520;
        chart.height = 220;
        out_ += to_svg(chart);
    }

    void speed() {
        out_ += "<h2>Speed and update</h2>\n<div class=\"pair\">\n";
        small_chart("tokens/s", &StepRow::tokens_per_s, true);
        small_chart("bubble, share of the step", &StepRow::bubble, true);
        small_chart("gradient norm, before clipping", &StepRow::grad_norm, true);
        small_chart("learning rate", &StepRow::lr, true);
        out_ += "</div>\n";
    }

    void split() {
        if (data_.splits.empty() || data_.split_steps == 0) return;
        out_ += "<h2>Where a step went</h2>\n";
        out_ += split_section(data_);
    }

    // Where the number of the picture's width begins; its end where there is none.
    static std::size_t width_of(const std::string& svg) {
        constexpr std::string_view name = "width=\"";
        const std::size_t found = svg.find(name);
        return found == std::string::npos ? svg.size() : found + name.size();
    }

    void picture() {
        if (run_.picture.empty()) return;
        // Numbers in the boxes stay readable down to some three quarters of their size.
        const bool fits = std::strtod(run_.picture.c_str() + width_of(run_.picture), nullptr) < 1450;
        out_ += std::string("<h2>The pipeline</h2>\n<div class=\"scroll picture\"><img class=\"") +
                (fits ? "fit" : "wide") +
                "\" alt=\"A step of the pipeline as it ran, beside the ideal one\" "
                "src=\"data:image/svg+xml;base64," +
                base64(run_.picture) + "\"></div>\n";
        out_ += bubble_section(data_);
    }

    void saves() {
        if (data_.saves.empty() && run_.checkpoints.empty()) return;
        out_ += "<h2>Checkpoints</h2>\n";
        if (!run_.checkpoints.empty()) {
            out_ += "<p>On disk:";
            for (const std::string& name : run_.checkpoints) out_ += " " + escaped(name);
            out_ += "</p>\n";
        }
        if (data_.saves.empty()) return;
        out_ +=
            "<div class=\"scroll\"><table><tr><th>after step</th><th>written</th><th>size</th><th>until "
            "durable"
            "</th><th>training stood still</th></tr>\n";
        for (const auto& [step, save] : data_.saves)
            out_ +=
                fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.2f} s</td><td>{:.3f} s</td></tr>\n",
                            grouped(step), time_text(save.time), bytes_text(static_cast<double>(save.bytes)),
                            save.save_ms / 1e3, save.stall_ms / 1e3);
        out_ += "</table></div>\n";
    }

    void warnings() {
        if (data_.warnings.empty() && data_.lines_passed_over == 0) return;
        out_ += "<h2>Warnings</h2>\n<ul>\n";
        for (const WarningRow& warning : data_.warnings)
            out_ += fmt::format("<li>step {}: {}</li>\n", grouped(warning.step), escaped(warning.text));
        if (data_.lines_passed_over > 0)
            out_ += fmt::format("<li>{} lines of metrics.jsonl are no events and were passed over</li>\n",
                                grouped(data_.lines_passed_over));
        out_ += "</ul>\n";
    }

    void config() {
        if (!run_.config.empty())
            out_ += "<h2>Job spec, resolved</h2>\n<pre>" + escaped(run_.config) + "</pre>\n";
    }

    void footer() {
        out_ += "<footer>Made by escalier report";
        if (!data_.steps.empty())
            out_ += ", from metrics up to " + time_text(data_.steps.rbegin()->second.time);
        if (data_.end && !data_.sessions.empty())
            out_ += "; the last session took " + duration_text(data_.end->time - data_.sessions.back().time);
        if (!run_.files.empty()) {
            out_ += ". In the folder:";
            for (const std::string& file : run_.files) out_ += " " + escaped(file);
        }
        out_ += ".</footer>\n";
    }

    const RunFolder& run_;
    const RunData& data_;
    std::string out_;
};

}  // namespace

std::string html_page(const RunFolder& run) {
    return Page(run).write();
}

}  // namespace escalier::report
