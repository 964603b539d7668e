#include "sweep/table.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "config/load.h"
#include "core/error.h"
#include "core/text.h"
#include "sweep/outcome.h"
#include "sweep/run_state.h"

namespace escalier::sweep {

namespace {

void find_status(Row& row, const SweepFolder& folder) {
    const Point& point = *row.point;
    if (!point.possible()) {
        row.status = Status::impossible;
        row.message = point.reason;
        return;
    }
    const RunState state = run_state(folder.run(point.name), *point.spec);
    const std::optional<Outcome> outcome = read_outcome(folder.outcome(point.name));
    if (state.stage == RunStage::finished) {
        row.status = Status::done;
    } else if (state.stage == RunStage::running) {
        row.status = Status::running;
    } else if (state.stage == RunStage::other_job) {
        row.message = "its folder holds a run of another job: " + state.difference;
    } else if (outcome && outcome->exit_code != 0) {
        const bool stopped = outcome->exit_code == static_cast<int>(ExitCode::stopped_early);
        row.status = stopped ? Status::interrupted : Status::failed;
        row.exit_code = outcome->exit_code;
        row.message = outcome->message;
    } else if (state.stage == RunStage::interrupted) {
        row.status = Status::interrupted;
    }
}

// As the run settled it, what the job left to the machine too.
config::JobSpec settled_spec(const Point& point, const SweepFolder& folder) {
    try {
        return config::load(config::read_job_file(folder.run(point.name) + "/config.yaml")).spec;
    } catch (const Error&) {
        return *point.spec;
    }
}

void measure(Row& row, const SweepFolder& folder) {
    row.metrics = read_run_metrics(folder.run(row.point->name));
    if (!row.metrics.steps.empty()) row.final_loss = row.metrics.steps.rbegin()->second.loss;
    if (row.metrics.bubble)
        row.bubble = row.metrics.bubble->measured;
    else
        row.bubble = row.metrics.step_bubble;
    if (row.metrics.predicted_bubble) row.predicted_bubble = row.metrics.predicted_bubble;
}

void compare_losses(std::vector<Row>& rows, const SweepFolder& folder, const TableQuestion& question) {
    std::vector<ComparedRun> runs;
    std::vector<Row*> compared;
    for (Row& row : rows) {
        if (row.status != Status::done) continue;
        const config::JobSpec spec = settled_spec(*row.point, folder);
        runs.push_back({fmt::format("#{}", row.point->index),
                        result_key(spec, question.exact_schedule(*row.point->spec)), &row.metrics});
        compared.push_back(&row);
    }
    const std::vector<Comparison> comparisons = compare(runs);
    for (std::size_t i = 0; i < comparisons.size(); ++i) compared[i]->losses = comparisons[i];
}

const char* status_text(Status status) {
    static constexpr const char* texts[] = {"done",        "not run", "running",
                                            "interrupted", "failed",  "impossible"};
    return texts[static_cast<int>(status)];
}

// A cell for programs and the same for people.
struct Cell {
    std::string exact, shown;
};

std::string whole(double value) {
    return std::isfinite(value) ? grouped(std::llround(value)) : "-";
}

Cell cell(const std::optional<double>& value, const std::function<std::string(double)>& show) {
    if (!value || !std::isfinite(*value)) return {};
    return {fmt::format("{}", *value), show(*value)};
}

struct Column {
    std::string name, title;
    bool number = true;
    std::function<Cell(const Row&)> cell;
};

Cell text_cell(const std::string& text) {
    return {text, text};
}

std::vector<Column> columns_of(const Sweep& sweep) {
    const auto share = [](double value) { return percent(value); };
    const auto milliseconds = [](double value) { return fmt::format("{:.1f}", value); };
    std::vector<Column> columns = {{"index", "#", true,
                                    [](const Row& r) {
                                        return r.point->possible() ? text_cell(std::to_string(r.point->index))
                                                                   : Cell{};
                                    }},
                                   {"name", "", false, [](const Row& r) {
                                        return Cell{r.point->name, ""};
                                    }}};
    for (std::size_t i = 0; i < sweep.axes.size(); ++i)
        columns.push_back({sweep.axes[i].key, sweep.axes[i].key, false,
                           [i](const Row& r) { return text_cell(r.point->settings[i].value); }});
    const auto resolved = [](std::int64_t (*of)(const config::JobSpec&)) {
        return [of](const Row& r) {
            return r.point->spec ? text_cell(std::to_string(of(*r.point->spec))) : Cell{};
        };
    };
    const std::vector<Column> rest = {
        {"ranks", "ranks", true, [](const Row& r) { return text_cell(std::to_string(r.point->ranks)); }},
        {"micro_batches", "micro-batches", true,
         resolved([](const config::JobSpec& spec) { return spec.micro_batches(); })},
        {"status", "status", false, [](const Row& r) { return text_cell(status_text(r.status)); }},
        {"exit_code", "", true,
         [](const Row& r) {
             return r.exit_code ? Cell{std::to_string(r.exit_code), ""} : Cell{};
         }},
        {"steps", "", true,
         [](const Row& r) {
             return r.metrics.steps.empty() ? Cell{}
                                            : Cell{std::to_string(r.metrics.steps.rbegin()->first), ""};
         }},
        {"tokens_per_s", "tok/s", true, [](const Row& r) { return cell(r.metrics.tokens_per_s, whole); }},
        {"step_ms", "step ms", true, [=](const Row& r) { return cell(r.metrics.step_ms, milliseconds); }},
        {"predicted_step_ms", "predicted ms", true,
         [=](const Row& r) { return cell(r.predicted_step_ms, milliseconds); }},
        {"bubble", "bubble", true, [=](const Row& r) { return cell(r.bubble, share); }},
        {"predicted_bubble", "predicted", true,
         [=](const Row& r) { return cell(r.predicted_bubble, share); }},
        {"theory_bubble", "(P-1)/(M+P-1)", true, [=](const Row& r) { return cell(r.theory_bubble, share); }},
        {"peak_memory_bytes", "peak memory", true,
         [](const Row& r) {
             return r.metrics.peak_bytes ? Cell{std::to_string(*r.metrics.peak_bytes),
                                                bytes_text(static_cast<double>(*r.metrics.peak_bytes))}
                                         : Cell{};
         }},
        {"final_loss", "final loss", true,
         [](const Row& r) {
             return cell(r.final_loss, [](double loss) { return fmt::format("{:.6f}", loss); });
         }},
        {"losses", "losses", false, [](const Row& r) { return text_cell(r.losses.text); }},
        {"message", "", false, [](const Row& r) {
             return Cell{r.message, ""};
         }}};
    columns.insert(columns.end(), rest.begin(), rest.end());
    return columns;
}

std::string csv_text(const std::string& text) {
    if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
    std::string quoted = "\"";
    for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
    return quoted + "\"";
}

std::string markdown_text(const std::string& text) {
    std::string out;
    for (const char c : text) out += c == '|' ? "\\|" : c == '\n' ? " " : std::string(1, c);
    return out;
}

}  // namespace

std::vector<Row> collect(const Sweep& sweep, const SweepFolder& folder, const TableQuestion& question) {
    std::vector<Row> rows;
    for (const Point& point : sweep.points) {
        Row row;
        row.point = &point;
        find_status(row, folder);
        if (row.status == Status::done) measure(row, folder);
        if (point.possible()) {
            const auto stages = static_cast<double>(point.spec->parallel.pp),
                       micro_batches = static_cast<double>(point.spec->micro_batches());
            row.theory_bubble = (stages - 1) / (micro_batches + stages - 1);
            if (question.predicted_step_ms) row.predicted_step_ms = question.predicted_step_ms(*point.spec);
        }
        rows.push_back(std::move(row));
    }
    compare_losses(rows, folder, question);
    return rows;
}

std::string to_csv(const Sweep& sweep, const std::vector<Row>& rows) {
    const std::vector<Column> columns = columns_of(sweep);
    std::string out;
    for (std::size_t i = 0; i < columns.size(); ++i) out += (i ? "," : "") + csv_text(columns[i].name);
    out += "\n";
    for (const Row& row : rows) {
        for (std::size_t i = 0; i < columns.size(); ++i)
            out += (i ? "," : "") + csv_text(columns[i].cell(row).exact);
        out += "\n";
    }
    return out;
}

std::string to_markdown(const Sweep& sweep, const std::vector<Row>& rows) {
    std::string head = "|", rule = "|";
    std::vector<std::string> lines(rows.size(), "|");
    for (const Column& column : columns_of(sweep)) {
        std::vector<std::string> cells;
        for (const Row& row : rows) cells.push_back(column.cell(row).shown);
        if (column.title.empty() ||
            std::all_of(cells.begin(), cells.end(), [](const std::string& text) { return text.empty(); }))
            continue;
        head += " " + column.title + " |";
        rule += column.number ? "---:|" : "---|";
        for (std::size_t i = 0; i < rows.size(); ++i) lines[i] += " " + markdown_text(cells[i]) + " |";
    }
    std::string out = head + "\n" + rule + "\n", notes;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        out += lines[i] + "\n";
        if (rows[i].message.empty()) continue;
        const std::string code = rows[i].exit_code ? fmt::format(" ({})", rows[i].exit_code) : "";
        notes += "- " + rows[i].point->name + ": " + status_text(rows[i].status) + code + ": " +
                 markdown_text(rows[i].message) + "\n";
    }
    return notes.empty() ? out : out + "\n" + notes;
}

}  // namespace escalier::sweep
