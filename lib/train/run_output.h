// What rank 0 shows and writes while a run goes on: console, log.txt, metrics.jsonl.
#pragma once

#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/saver.h"
#include "config/job_spec.h"
#include "pipeline/bubble.h"
#include "train/console.h"
#include "train/metrics.h"
#include "train/run_directory.h"
#include "train/run_figures.h"

namespace escalier::train {

class RunOutput {
 public:
    // held: a folder to go on in; null: a new one, of just that name if own_name. A dry run leaves nothing
    // behind.
    RunOutput(const config::JobSpec& spec, std::unique_ptr<RunDirectory> held, bool own_name, bool dry_run);

    const RunDirectory* directory() const { return directory_.get(); }  // null: dry run
    void line(const std::string& text) { console_->line(text); }

    // first_step: the first one of this process.
    void start(const RunStart& start, std::int64_t first_step);
    void step(const StepReport& report);
    void eval(std::int64_t step, double loss, std::int64_t targets, double seconds);
    void checkpoint(const checkpoint::SavedCheckpoint& saved);
    void warning(std::int64_t step, const std::string& text);
    // Where the steps went, all of them but this process's first.
    void summary(const std::optional<pipeline::Bubble>& bubble, double predicted_bubble);
    // resident: the peak of every rank, in bytes.
    void end(int exit_code, const std::string& reason, const std::vector<std::int64_t>& resident);

 private:
    bool due(std::int64_t step, std::int64_t every) const {
        return every > 0 && (step % every == 0 || step == spec_.train.steps);
    }

    config::JobSpec spec_;
    std::optional<RunFigures> figures_;  // none in a dry run
    std::unique_ptr<RunDirectory> directory_;
    std::ofstream log_;
    std::optional<Console> console_;
    std::optional<MetricsFile> metrics_;
    std::int64_t first_step_ = 1;
    std::int64_t timed_steps_ = 0;
    double timed_seconds_ = 0;     // of those, without saves and validation
    std::vector<RankSplit> sums_;  // of those
};

}  // namespace escalier::train
