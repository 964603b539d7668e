#include "train/run_output.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "core/text.h"
#include "train/step_report.h"

namespace escalier::train {

RunOutput::RunOutput(const config::JobSpec& spec, std::unique_ptr<RunDirectory> held, bool own_name,
                     bool dry_run)
    : spec_(spec), directory_(std::move(held)) {
    if (!dry_run) {
        figures_.emplace(spec);  // before there is a folder: the port may be in use
        if (!directory_) directory_ = std::make_unique<RunDirectory>(spec.run, own_name);
        log_ = directory_->append("log.txt");
        if (spec.log.jsonl)
            metrics_.emplace(directory_->append("metrics.jsonl"), directory_->file("metrics.jsonl"));
    }
    console_.emplace(stdout_is_terminal(), dry_run ? nullptr : &log_,
                     dry_run ? "" : directory_->file("log.txt"));
    line(fmt::format("escalier  job {}, {}", spec.run.name,
                     directory_ ? "run directory " + directory_->path() : "dry run"));
    if (directory_ && !directory_->note().empty()) line("note: " + directory_->note());
    if (directory_ && !directory_->warning().empty()) line("warning: " + directory_->warning());
}

void RunOutput::start(const RunStart& start, std::int64_t first_step) {
    first_step_ = first_step;
    if (figures_) figures_->open(directory_->path(), first_step);
    if (metrics_) metrics_->start(start);
}

void RunOutput::step(const StepReport& report) {
    if (figures_) figures_->step(report);
    if (metrics_) metrics_->step(report);
    const std::string text = step_line(report);
    const std::int64_t kept = std::max<std::int64_t>(1, spec_.train.steps / 25);  // on a terminal
    if (report.step == first_step_ || due(report.step, console_->terminal() ? kept : spec_.log.every))
        line(text);
    else if (due(report.step, spec_.log.every))
        console_->log_line(text);
    if (report.step == first_step_) return;
    ++timed_steps_;
    timed_seconds_ += report.seconds;
    add_to_sums(sums_, report.ranks);
    const double left =
        timed_seconds_ / static_cast<double>(timed_steps_) * static_cast<double>(report.steps - report.step);
    console_->status(fmt::format("{} | {:.0f} % | {} left", text,
                                 100.0 * static_cast<double>(report.step) / static_cast<double>(report.steps),
                                 clock_text(left)));
}

void RunOutput::eval(std::int64_t step, double loss, std::int64_t targets, double seconds) {
    line(fmt::format("validation after step {} | loss {:.6f} | {} targets | {:.1f} s", step, loss,
                     grouped(targets), seconds));
    if (figures_) figures_->eval(step, loss);
    if (metrics_) metrics_->eval(step, loss, targets, seconds);
}

void RunOutput::checkpoint(const checkpoint::SavedCheckpoint& saved) {
    line(fmt::format("checkpoint {} | {} | {:.2f} s, of which training stood still {:.3f} s", saved.directory,
                     bytes_text(static_cast<double>(saved.bytes)), saved.seconds, saved.stalled_seconds));
    for (const std::string& text : saved.warnings) warning(saved.step, text);
    if (figures_) figures_->checkpoint(saved.step);
    if (metrics_) metrics_->checkpoint(saved.step, saved.bytes, saved.seconds, saved.stalled_seconds);
}

void RunOutput::warning(std::int64_t step, const std::string& text) {
    line("warning: " + text);
    if (metrics_) metrics_->warning(step, text);
}

void RunOutput::summary(const std::optional<pipeline::Bubble>& bubble, double predicted_bubble) {
    if (timed_steps_ == 0) return;
    line("where a step went, mean of all steps but the first:\n" + split_table(mean_of(sums_, timed_steps_)));
    if (bubble && spec_.parallel.pp > 1) {
        line(bubble_table(*bubble));
        if (metrics_) metrics_->bubble(*bubble);
    }
    const double tokens = static_cast<double>(timed_steps_ * spec_.train.global_batch * spec_.train.seq_len);
    std::string idle;
    if (bubble && spec_.parallel.pp > 1)
        idle = fmt::format("; idle share of the pipeline measured {:.1f} %, predicted {:.1f} %",
                           100 * bubble->measured, 100 * predicted_bubble);
    line(fmt::format("done: {} steps, {} tok/s without step {}{}", timed_steps_ + 1,
                     grouped(static_cast<std::int64_t>(tokens / timed_seconds_)), first_step_, idle));
}

void RunOutput::end(int exit_code, const std::string& reason, const std::vector<std::int64_t>& resident) {
    if (metrics_) metrics_->end(exit_code, reason, resident);
}

}  // namespace escalier::train
