#include "report/page_tables.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/text.h"
#include "report/markup.h"

namespace escalier::report {

namespace {

using nlohmann::json;

constexpr std::size_t most_rows = 64;  // of ranks; more say nothing that these do not

struct Part {
    const char* style;
    const char* name;
    double SplitSums::*member;
};
constexpr std::array<Part, 6> parts = {{
    {"compute", "compute", &SplitSums::compute},
    {"communication", "exposed communication", &SplitSums::communication},
    {"bubble", "bubble", &SplitSums::bubble},
    {"reduction", "reduction", &SplitSums::reduction},
    {"optimizer", "optimizer", &SplitSums::optimizer},
    {"data", "data wait", &SplitSums::data},
}};

std::string key_of(const std::string& style, const std::string& name) {
    return "<span><i class=\"" + style + "\"></i>" + escaped(name) + "</span>";
}

std::string segment(const std::string& style, double share, const std::string& hint) {
    if (!(share > 0)) return "";
    return fmt::format("<i class=\"{}\" style=\"width:{:.3f}%\" title=\"{}\"></i>", style, 100 * share,
                       escaped(hint));
}

std::string left_out(std::size_t rows) {
    return rows > most_rows
               ? fmt::format("<p class=\"quiet\">{} more ranks are left out.</p>\n", rows - most_rows)
               : "";
}

std::string cell(const std::string& text, bool left = false) {
    return (left ? "<td class=\"text\">" : "<td>") + escaped(text) + "</td>";
}

// Of a JSON value of any kind, for a table.
std::string plain(const json& object, const char* name) {
    const auto found = object.find(name);
    if (found == object.end() || found->is_null()) return "–";
    if (found->is_string()) return found->get<std::string>();
    if (found->is_array()) {
        std::string text;
        for (const json& item : *found)
            text += (text.empty() ? "" : ", ") +
                    (item.is_string() ? item.get<std::string>()
                                      : item.dump(-1, ' ', false, json::error_handler_t::replace));
        return text;
    }
    return found->dump(-1, ' ', false, json::error_handler_t::replace);
}

const json* array_in(const json& object, const char* name) {
    if (!object.is_object()) return nullptr;
    const auto found = object.find(name);
    return found != object.end() && found->is_array() && !found->empty() ? &*found : nullptr;
}

}  // namespace

std::string split_section(const RunData& data) {
    const auto steps = static_cast<double>(data.split_steps);
    double longest = 0;
    for (const SplitSums& rank : data.splits) longest = std::max(longest, rank.step);
    std::string text = fmt::format(
        "<p class=\"quiet\">Mean of {} steps of the last session, without its first. Bubble is waiting "
        "for a stage that still computed.</p>\n<div class=\"key\">",
        grouped(data.split_steps));
    for (const Part& part : parts) text += key_of(part.style, part.name);
    text += "</div>\n<div class=\"bars\">\n";
    std::string table = "<div class=\"scroll\"><table><tr><th>rank</th><th>step</th>";
    for (const Part& part : parts) table += std::string("<th>") + part.name + "</th>";
    table += "</tr>\n";
    for (std::size_t rank = 0; rank < std::min(data.splits.size(), most_rows); ++rank) {
        const SplitSums& sums = data.splits[rank];
        text += fmt::format("<span>rank {}</span><span class=\"bar\">", rank);
        table += fmt::format("<tr><td>{}</td><td>{:.1f} ms</td>", rank, sums.step / steps);
        for (const Part& part : parts) {
            const double share = sums.step > 0 ? sums.*part.member / sums.step : 0;
            text += segment(
                part.style, longest > 0 ? sums.*part.member / longest : 0,
                fmt::format("{}: {:.1f} ms, {}", part.name, sums.*part.member / steps, percent(share)));
            table += cell(percent(share));
        }
        text += fmt::format("</span><span>{:.1f} ms</span>\n", sums.step / steps);
        table += "</tr>\n";
    }
    return text + "</div>\n" + table + "</table></div>\n" + left_out(data.splits.size());
}

std::string bubble_section(const RunData& data) {
    if (!data.bubble.is_object()) return "";
    const auto share = [&](const char* name) {
        const double value = number_in(data.bubble, name);
        return std::isfinite(value) ? percent(value) : std::string("–");
    };
    std::string text =
        "<h3>Idle share of the pipeline</h3>\n<div class=\"scroll\"><table><tr><th class=\"text\">what"
        "</th><th>share</th></tr>\n";
    const auto row = [&](const char* what, const char* name) {
        text += "<tr>" + cell(what, true) + cell(share(name)) + "</tr>\n";
    };
    row("in theory: equal stages, messages for nothing", "theory");
    row("simulated: each stage at its measured mean", "simulated");
    row("measured", "measured");
    row("of that: imbalance between the stages", "imbalance");
    row("stragglers: actions that differ from their stage's mean", "stragglers");
    row("communication: messages, and starting them", "communication");
    return text + "</table></div>\n";
}

std::string memory_section(const RunFolder& run) {
    const json* ranks = array_in(run.data.start, "memory");
    if (!ranks) return "";
    const json* peaks = array_in(run.data.last_end, "peak_resident_bytes");
    std::vector<std::string> arenas;  // in the order of their first appearance
    double most = 0;
    for (const json& rank : *ranks) {
        most = std::max(most, number_in(rank, "arena_bytes"));
        if (!rank.is_object() || !rank.contains("arenas") || !rank["arenas"].is_object()) continue;
        for (const auto& [name, bytes] : rank["arenas"].items())
            if (std::find(arenas.begin(), arenas.end(), name) == arenas.end()) arenas.push_back(name);
    }
    const auto bytes_of = [](const json& rank, const std::string& arena) {
        if (!rank.is_object() || !rank.contains("arenas") || !rank["arenas"].is_object()) return 0.0;
        const double bytes = number_in(rank["arenas"], arena.c_str());
        return std::isfinite(bytes) ? bytes : 0.0;
    };
    std::string key, bars, table = "<tr><th>rank</th>";
    for (std::size_t i = 0; i < arenas.size(); ++i) {
        key += key_of(fmt::format("m{}", i % 8), arenas[i]);
        table += "<th>" + escaped(arenas[i]) + "</th>";
    }
    table += std::string("<th>all arenas</th>") + (peaks ? "<th>peak of the process</th>" : "") + "</tr>\n";
    for (std::size_t r = 0; r < std::min(ranks->size(), most_rows); ++r) {
        const json& rank = (*ranks)[r];
        bars += fmt::format("<span>rank {}</span><span class=\"bar\">", r);
        table += fmt::format("<tr><td>{}</td>", r);
        for (std::size_t i = 0; i < arenas.size(); ++i) {
            const double bytes = bytes_of(rank, arenas[i]);
            bars += segment(fmt::format("m{}", i % 8), most > 0 ? bytes / most : 0,
                            arenas[i] + ": " + bytes_text(bytes));
            table += cell(bytes_text(bytes));
        }
        const double all = number_in(rank, "arena_bytes");
        bars += "</span><span>" + bytes_text(std::isfinite(all) ? all : 0) + "</span>\n";
        table += cell(bytes_text(std::isfinite(all) ? all : 0));
        if (peaks)
            table += cell(r < peaks->size() && (*peaks)[r].is_number() ? bytes_text((*peaks)[r].get<double>())
                                                                       : "–");
        table += "</tr>\n";
    }
    return "<h2>Memory</h2>\n<div class=\"key\">" + key + "</div>\n<div class=\"bars\">\n" + bars +
           "</div>\n<div class=\"scroll\"><table>" + table + "</table></div>\n" + left_out(ranks->size());
}

std::string ranks_section(const RunFolder& run) {
    if (!run.facts.is_object()) return "";
    std::string text = "<h2>Ranks</h2>\n<p class=\"quiet\">";
    for (const auto& [name, title] :
         {std::pair{"mpi", ""}, {"matrix_library", " · "}, {"compiler", " · compiler "}})
        text += std::string(title) + escaped(plain(run.facts, name));
    text += "</p>\n";
    if (run.facts.contains("schedule") && run.facts["schedule"].is_object()) {
        const json& schedule = run.facts["schedule"];
        text += "<p>Schedule " + escaped(plain(schedule, "kind")) + ", chunks per rank " +
                escaped(plain(schedule, "chunks")) + ", micro-batches " +
                escaped(plain(schedule, "micro_batches")) + ", layers per stage " +
                escaped(plain(schedule, "layers_per_stage")) + "</p>\n";
    }
    const json* ranks = array_in(run.facts, "ranks");
    if (!ranks) return text;
    text +=
        "<div class=\"scroll\"><table><tr><th>rank</th><th "
        "class=\"text\">host</th><th>tp</th><th>dp</th><th>pp</th>"
        "<th class=\"text\">stages</th><th>threads</th><th>cores</th><th class=\"text\">device</th></tr>\n";
    for (std::size_t r = 0; r < std::min(ranks->size(), most_rows); ++r) {
        const json& rank = (*ranks)[r];
        if (!rank.is_object()) continue;
        text += "<tr>" + cell(plain(rank, "rank")) + cell(plain(rank, "host"), true) +
                cell(plain(rank, "tp_rank")) + cell(plain(rank, "dp_rank")) + cell(plain(rank, "pp_rank")) +
                cell(plain(rank, "stages"), true) + cell(plain(rank, "threads")) +
                cell(plain(rank, "cores")) + cell(plain(rank, "device"), true) + "</tr>\n";
    }
    return text + "</table></div>\n" + left_out(ranks->size());
}

}  // namespace escalier::report
