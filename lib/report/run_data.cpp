#include "report/run_data.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/error.h"
#include "core/file_lock.h"

namespace escalier::report {

namespace {

using nlohmann::json;

constexpr std::size_t most_at_once = std::size_t{1} << 24;  // bytes of metrics read into memory

std::string text_in(const json& event, const char* name) {
    const auto found = event.find(name);
    return found != event.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// 0 for what is no count: steps, bytes and tokens are never negative.
std::int64_t count_in(const json& event, const char* name) {
    const double value = number_in(event, name);
    return value >= 0 && value < 9e15 ? static_cast<std::int64_t>(value) : 0;
}

// A line that does not say a code that a process can have tells of no success.
int exit_code_in(const json& event) {
    const double value = number_in(event, "exit_code");
    return value >= 0 && value <= 255 ? static_cast<int>(value) : 1;
}

void add_to(double& sum, const json& rank, const char* name) {
    const double value = number_in(rank, name);
    if (std::isfinite(value)) sum += value;
}

}  // namespace

json parsed(const std::string& text) {
    constexpr int deepest = 16;
    return json::parse(
        text, [](int depth, json::parse_event_t, json&) { return depth < deepest; }, false);
}

double number_in(const json& event, const char* name) {
    const auto found = event.find(name);
    return found != event.end() && found->is_number() ? found->get<double>() : unknown;
}

void RunData::add_line(const std::string& line) {
    const json event = parsed(line);
    if (!event.is_object()) {
        ++lines_passed_over;
        return;
    }
    const std::string kind = text_in(event, "event");
    const std::int64_t step = count_in(event, "step");
    if (kind == "start")
        add_start(event);
    else if (kind == "step")
        add_step(event);
    else if (kind == "eval")
        validation[step] = number_in(event, "loss");
    else if (kind == "checkpoint")
        saves[step] = {number_in(event, "time"), number_in(event, "save_ms"), number_in(event, "stall_ms"),
                       count_in(event, "bytes")};
    else if (kind == "warning")
        warnings.push_back({step, text_in(event, "text")});
    else if (kind == "bubble")
        bubble = event;
    else if (kind == "end") {
        end = EndRow{exit_code_in(event), text_in(event, "reason"), number_in(event, "time")};
        last_end = event;
    }
    // Events of later versions are no fault.
}

void RunData::add_start(const json& event) {
    Session session;
    session.first_step = std::max<std::int64_t>(1, count_in(event, "first_step"));
    session.time = number_in(event, "time");
    session.resumed_from = text_in(event, "resumed_from");
    const auto forget = [&](auto& rows) { rows.erase(rows.lower_bound(session.first_step), rows.end()); };
    forget(steps);
    forget(validation);
    forget(saves);
    sessions.push_back(session);
    splits.clear();
    split_steps = 0;
    end.reset();
    last_end = bubble = json();
    start = event;
}

void RunData::add_step(const json& event) {
    const std::int64_t step = count_in(event, "step");
    StepRow row;
    row.time = number_in(event, "time");
    row.loss = number_in(event, "loss");
    row.grad_norm = number_in(event, "grad_norm");
    row.lr = number_in(event, "lr");
    row.step_ms = number_in(event, "step_ms");
    row.tokens_per_s = number_in(event, "tokens_per_s");
    row.bubble = number_in(event, "bubble");
    row.mfu = number_in(event, "mfu");
    row.consumed_tokens = count_in(event, "consumed_tokens");
    steps[step] = row;
    const auto ranks = event.find("ranks");
    if (ranks == event.end() || !ranks->is_array()) return;
    if (!sessions.empty() && step == sessions.back().first_step) return;  // slow, as every first step is
    if (splits.size() != ranks->size()) {
        splits.assign(ranks->size(), {});
        split_steps = 0;
    }
    ++split_steps;
    for (std::size_t rank = 0; rank < splits.size(); ++rank) {
        const json& parts = (*ranks)[rank];
        SplitSums& sums = splits[rank];
        add_to(sums.step, parts, "step_ms");
        add_to(sums.compute, parts, "compute_ms");
        add_to(sums.communication, parts, "exposed_communication_ms");
        add_to(sums.bubble, parts, "bubble_ms");
        add_to(sums.reduction, parts, "reduction_ms");
        add_to(sums.optimizer, parts, "optimizer_ms");
        add_to(sums.data, parts, "data_wait_ms");
    }
}

std::int64_t RunData::planned_steps() const {
    return start.is_object() ? count_in(start, "steps") : 0;
}

std::int64_t MetricsReader::read(RunData& data) {
    std::ifstream in(path_, std::ios::binary);
    if (!in)
        throw IoError::read(path_ + ": " + std::strerror(errno) +
                            ". Name a run's folder, run.dir/run.name; log.jsonl must be true.");
    in.seekg(0, std::ios::end);
    if (in.tellg() < at_)
        at_ = 0;  // a resumed run cuts an unfinished line off; anything less is another file
    in.seekg(at_);
    std::int64_t lines = 0;
    std::string pending, block(1 << 16, '\0');
    bool skipping = false;  // a line that is longer than any of ours
    while (in.read(block.data(), static_cast<std::streamsize>(block.size())), in.gcount() > 0) {
        pending.append(block.data(), static_cast<std::size_t>(in.gcount()));
        std::size_t begin = 0;
        for (std::size_t newline; (newline = pending.find('\n', begin)) != std::string::npos;) {
            const std::string line = pending.substr(begin, newline - begin);
            at_ += static_cast<std::int64_t>(newline + 1 - begin);
            begin = newline + 1;
            if (skipping)
                ++data.lines_passed_over;
            else if (!line.empty())
                data.add_line(line), ++lines;
            skipping = false;
        }
        pending.erase(0, begin);
        if (pending.size() > most_at_once) {
            at_ += static_cast<std::int64_t>(pending.size());
            pending.clear();
            skipping = true;
        }
    }
    return lines;
}

bool is_locked(const std::string& folder) {
    const int lock = open((folder + "/.lock").c_str(), O_RDONLY | O_CLOEXEC);
    if (lock < 0) return false;
    const bool held = is_file_locked(lock);
    close(lock);
    return held;
}

RunState run_state(const std::string& folder, const RunData& data) {
    if (data.end) return RunState::ended;
    return is_locked(folder) ? RunState::running : RunState::dead;
}

RunLook look_at_run(const std::string& folder, MetricsReader& reader, RunData& data) {
    RunLook look;
    look.news = reader.read(data) > 0;
    look.state = run_state(folder, data);
    while (look.state == RunState::dead && reader.read(data) > 0) {
        look.news = true;
        look.state = run_state(folder, data);
    }
    return look;
}

std::optional<std::string> read_text(const std::string& path, std::size_t most) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
    std::ifstream in(path, std::ios::binary);
    if (!in) return std::nullopt;
    std::string text(most, '\0');
    in.read(text.data(), static_cast<std::streamsize>(most));
    text.resize(static_cast<std::size_t>(in.gcount()));
    return text;
}

}  // namespace escalier::report
