// What a run folder says about a run, while it goes on or after it: metrics.jsonl, run.json, config.yaml.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace escalier::report {

inline constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

struct StepRow {
    double time = unknown;  // unix seconds, at its end
    double loss = unknown, grad_norm = unknown, lr = unknown;
    double step_ms = unknown, tokens_per_s = unknown, bubble = unknown, mfu = unknown;
    std::int64_t consumed_tokens = 0;
};

// Milliseconds, in the order of metrics.jsonl's names.
struct SplitSums {
    double step = 0, compute = 0, communication = 0, bubble = 0, reduction = 0, optimizer = 0, data = 0;
};

// One start of a process that wrote here.
struct Session {
    std::int64_t first_step = 1;
    double time = unknown;
    std::string resumed_from;  // empty: from initial weights
};

struct SavedRow {
    double time = unknown, save_ms = unknown, stall_ms = unknown;
    std::int64_t bytes = 0;
};

struct WarningRow {
    std::int64_t step = 0;
    std::string text;
};

struct EndRow {
    int exit_code = 0;
    std::string reason;
    double time = unknown;
};

// Lines are fed in order; a resume that goes back takes what came after its first step away.
class RunData {
 public:
    // One line of metrics.jsonl. A line that is none of ours is counted and passed over.
    void add_line(const std::string& line);

    std::map<std::int64_t, StepRow> steps;
    std::map<std::int64_t, double> validation;  // loss after a step
    std::map<std::int64_t, SavedRow> saves;     // by step
    std::vector<Session> sessions;
    std::vector<WarningRow> warnings;
    std::vector<SplitSums> splits;  // by rank: sums over the last session's steps but its first
    std::int64_t split_steps = 0;
    std::optional<EndRow> end;  // of the last session
    nlohmann::json start;       // the last start event; null: none
    nlohmann::json bubble;      // null: none
    nlohmann::json last_end;    // the end event as it stands; null: none
    std::int64_t lines_passed_over = 0;

    std::int64_t planned_steps() const;  // 0: not known

 private:
    void add_start(const nlohmann::json& event);
    void add_step(const nlohmann::json& event);
};

// Follows a file that grows.
class MetricsReader {
 public:
    explicit MetricsReader(std::string path) : path_(std::move(path)) {}
    // Feeds the whole lines that are new; returns how many. Throws IoError (66) when there is no such file.
    std::int64_t read(RunData& data);

 private:
    std::string path_;
    std::int64_t at_ = 0;  // bytes read so far, in whole lines
};

enum class RunState { running, ended, dead };

// dead: it has no end, and no process of this host holds the folder's lock.
RunState run_state(const std::string& folder, const RunData& data);

// Whether a process of this host holds the lock of a run's folder, as a run does until its process ends.
bool is_locked(const std::string& folder);

// Reads on, and says where the run stands by all that it has written: what came between the two looks, its
// end above all, is read too.
struct RunLook {
    RunState state;
    bool news;  // there were new lines
};
RunLook look_at_run(const std::string& folder, MetricsReader& reader, RunData& data);

// Text of a file of the run, of at most `most` bytes; nothing if it is not there.
std::optional<std::string> read_text(const std::string& path, std::size_t most);

// JSON of a run's file, discarded where it is none. What is nested deeper than anything of ours is left out:
// copying and printing go as deep as it does.
nlohmann::json parsed(const std::string& text);

// A number of an event; `unknown` when it is absent or null.
double number_in(const nlohmann::json& event, const char* name);

}  // namespace escalier::report
