#include "sweep/run_points.h"

#include <signal.h>
#include <spdlog/fmt/fmt.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <list>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"
#include "launch/command.h"
#include "sweep/child.h"
#include "sweep/outcome.h"
#include "sweep/run_metrics.h"
#include "sweep/run_state.h"
#include "sweep/stop_signals.h"

namespace escalier::sweep {

namespace {

constexpr double seconds_to_end = 10;  // from SIGTERM to SIGKILL

std::uintmax_t size_of(const std::string& path) {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    return error ? 0 : size;
}

// What was appended since then, the last part where it is long.
std::string read_from(const std::string& path, std::uintmax_t begin) {
    constexpr std::uintmax_t most = 1 << 16;
    const std::uintmax_t size = size_of(path);
    if (size > begin + most) begin = size - most;
    std::ifstream file(path);
    file.seekg(static_cast<std::streamoff>(begin));
    return {std::istreambuf_iterator<char>(file), {}};
}

struct Running {
    const Point& point;
    Outcome outcome;  // its command, so far
    std::uintmax_t log_begin;
    double start;
    Child child;
};

class PointRunner {
 public:
    PointRunner(const Sweep& sweep, const SweepFolder& folder, const RunRequest& request)
        : sweep_(sweep), folder_(folder), request_(request) {}

    RunSummary run() {
        std::deque<const Point*> waiting(request_.points.begin(), request_.points.end());
        while (!waiting.empty() || !running_.empty()) {
            while (!waiting.empty() && running_.size() < static_cast<std::size_t>(request_.jobs) &&
                   asked_ == 0) {
                const Point& point = *waiting.front();
                waiting.pop_front();
                guarded(point, [&] { begin(point); });
            }
            if (running_.empty() && asked_ == 0) continue;  // all of them were done before
            if (running_.empty()) break;
            const int asked = signals_.wait(std::chrono::milliseconds(500));
            if (asked != asked_) stop(asked);
            if (deadline_ > 0 && now_seconds() > deadline_)
                for (const Running& each : running_) each.child.signal_group(SIGKILL);
            reap();
        }
        for (const Point* point : waiting)
            ++(run_state(folder_.run(point->name), *point->spec).stage == RunStage::finished
                   ? summary_.done
                   : summary_.unfinished);
        summary_.stopped = asked_ > 0;
        return summary_;
    }

 private:
    void say(const Point& point, const std::string& text) const {
        request_.say(fmt::format("[{:>3}] {}: {}", point.index, point.name, text));
    }

    // A fault of one point's files or process leaves those that run beside it alone.
    template <class Work>
    void guarded(const Point& point, const Work& work) {
        const auto failed = [&](const std::exception& error) {
            ++summary_.failed;
            say(point, fmt::format("FAILED: {}", failure_of(error).message));
        };
        try {
            work();
        } catch (const Error& error) {
            failed(error);
        } catch (const std::filesystem::filesystem_error& error) {
            failed(error);
        }
    }

    void begin(const Point& point) {
        const RunState state = run_state(folder_.run(point.name), *point.spec);
        if (state.stage == RunStage::finished) {
            ++summary_.done;
            say(point, "done before");
            return;
        }
        if (state.stage == RunStage::running) {
            ++summary_.unfinished;
            say(point, "left alone: another process has it under way");
            return;
        }
        std::vector<std::string> arguments = {"train", sweep_.job};
        for (const std::string& assignment : overrides_of(sweep_, point)) {
            arguments.push_back("--set");
            arguments.push_back(assignment);
        }
        const std::string note = prepare(point, state, arguments);
        const std::vector<std::string> command = request_.command(point, arguments);
        const std::string log = folder_.log(point.name);
        {
            std::ofstream out(log, std::ios::app);
            out << "$ " << launch::shell_text(command) << std::endl;
            if (!out) throw IoError::write(log + " cannot be written");
        }
        std::error_code error;
        std::filesystem::remove(folder_.outcome(point.name), error);
        say(point, fmt::format("{} {}{}", point.ranks, point.ranks == 1 ? "rank" : "ranks", note));
        const std::uintmax_t log_begin = size_of(log);
        const double start = now_seconds();
        Child child(command, log);
        running_.push_back(
            {point, {0, "", 0, launch::shell_text(command)}, log_begin, start, std::move(child)});
    }

    // Makes room for the run; what it says of that.
    std::string prepare(const Point& point, const RunState& state,
                        std::vector<std::string>& arguments) const {
        if (state.stage == RunStage::absent) return "";
        if (state.stage == RunStage::other_job)
            return fmt::format(", anew: {}; that run is now {}", state.difference,
                               folder_.move_away(point.name));
        arguments.insert(arguments.end(), {"--resume", "auto"});
        return state.has_checkpoint ? ", going on from its checkpoint"
                                    : ", anew: it was interrupted before its first checkpoint";
    }

    void stop(int asked) {
        asked_ = asked;
        if (asked == 1) {
            request_.say(
                fmt::format("stopping: {} under way saves and ends; interrupt again to end it without",
                            running_.size() == 1 ? "the run" : "what is"));
            for (const Running& each : running_) each.child.signal(SIGUSR1);
            return;
        }
        for (const Running& each : running_) each.child.signal(SIGTERM);
        if (deadline_ == 0) deadline_ = now_seconds() + seconds_to_end;
    }

    void reap() {
        for (auto each = running_.begin(); each != running_.end();) {
            const std::optional<int> code = each->child.ended();
            if (!code) {
                ++each;
                continue;
            }
            guarded(each->point, [&] { finish(*each, *code); });
            each = running_.erase(each);
        }
    }

    void finish(Running& run, int code) {
        const Point& point = run.point;
        run.outcome.exit_code = code;
        run.outcome.seconds = now_seconds() - run.start;
        const RunMetrics metrics = read_run_metrics(folder_.run(point.name));
        if (code != 0) {
            const bool saved = code == static_cast<int>(ExitCode::stopped_early) && metrics.exit_code == code;
            run.outcome.message =
                saved ? metrics.end_reason : last_message(read_from(folder_.log(point.name), run.log_begin));
        }
        folder_.write(folder_.outcome(point.name), to_json(run.outcome));
        if (code == 0) {
            ++summary_.done;
            say(point, "done" + results(metrics, run.outcome.seconds));
        } else if (code == static_cast<int>(ExitCode::stopped_early) || asked_ > 0) {
            ++summary_.unfinished;
            say(point, fmt::format("unfinished (exit code {}): {}", code, run.outcome.message));
        } else {
            ++summary_.failed;
            say(point, fmt::format("FAILED with exit code {}: {} (its output: {})", code, run.outcome.message,
                                   folder_.log(point.name)));
        }
    }

    static std::string results(const RunMetrics& metrics, double seconds) {
        std::string text = fmt::format(" in {:.1f} s", seconds);
        if (metrics.tokens_per_s)
            text += fmt::format(", {} tok/s", grouped(static_cast<std::int64_t>(*metrics.tokens_per_s)));
        if (!metrics.steps.empty()) text += fmt::format(", loss {:.6f}", metrics.steps.rbegin()->second.loss);
        return text;
    }

    const Sweep& sweep_;
    const SweepFolder& folder_;
    const RunRequest& request_;
    StopSignals signals_;
    std::list<Running> running_;
    RunSummary summary_;
    int asked_ = 0;        // so many signals to stop
    double deadline_ = 0;  // for what was asked to end; 0: none
};

}  // namespace

int RunSummary::exit_code() const {
    if (stopped && unfinished > 0) return static_cast<int>(ExitCode::stopped_early);
    if (failed > 0) return static_cast<int>(ExitCode::failed);
    return unfinished > 0 ? static_cast<int>(ExitCode::stopped_early) : 0;
}

RunSummary run_points(const Sweep& sweep, const SweepFolder& folder, const RunRequest& request) {
    return PointRunner(sweep, folder, request).run();
}

}  // namespace escalier::sweep
