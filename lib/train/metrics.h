// What a run reports: metrics.jsonl for programs, lines for people. Rank 0 only.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "device/arena.h"
#include "pipeline/bubble.h"

namespace escalier::train {

// Where one rank's step went, in seconds; the parts sum to `step`.
struct RankSplit {
    double compute = 0;
    double exposed_communication = 0;  // tensor-group collectives and messages that compute did not hide
    double bubble = 0;                 // waiting for a producer that was still computing
    double reduction = 0;              // data-parallel sum, gradient completion, norm, loss
    double optimizer = 0;
    double data_wait = 0;
    double step = 0;
};

struct StepReport {
    std::int64_t step = 0;
    std::int64_t steps = 0;
    double loss = 0, grad_norm = 0, lr = 0;
    double seconds = 0;  // slowest rank
    std::int64_t consumed_samples = 0, consumed_tokens = 0, step_tokens = 0;
    double model_flops = 0;        // of the step, in the convention of config/model_facts.h
    double peak_flops = 0;         // per second, of all devices together; 0: not known
    bool skipped = false;          // the weights were left as they were
    std::vector<RankSplit> ranks;  // by rank of the job
    std::vector<pipeline::StageTimes> stages;
};

struct RunStart {
    std::string grid;
    std::int64_t parameters = 0;
    double predicted_bubble = 0;
    std::int64_t first_step = 1;                         // of this process
    std::int64_t steps = 0;                              // train.steps
    std::string resumed_from;                            // step folder; empty: initial weights
    std::vector<std::vector<device::ArenaSize>> arenas;  // by rank
};

// Model FLOPs (recompute excluded, the causal half of attention) as a share of the peak; NaN where that is
// not known.
double mfu(const StepReport& report);
// Mean over ranks of bubble / step.
double bubble_share(const std::vector<RankSplit>& ranks);
// "step  12/200 | loss 2.345678 | norm 1.234 | lr 3.00e-04 | 123.4 ms | 16,384 tok/s | bubble 11.2 %", and
// " | mfu 41.3 %" where the peak is known, " | skipped" where nothing was updated
std::string step_line(const StepReport& report);
// One line per rank, in shares of the step.
std::string split_table(const std::vector<RankSplit>& ranks);
// Idle in theory, simulated and measured, and what makes the differences.
std::string bubble_table(const pipeline::Bubble& bubble);
// 75 -> "1:15", 4000 -> "1:06:40"
std::string clock_text(double seconds);

// One JSON object a line, flushed; numbers as shortest round-trip decimals, null where not finite. A line
// that cannot be written is an IoError (write).
class MetricsFile {
 public:
    MetricsFile(std::ofstream out, std::string path) : out_(std::move(out)), path_(std::move(path)) {}
    void start(const RunStart& start);
    void step(const StepReport& report);
    void eval(std::int64_t step, double loss, std::int64_t targets, double seconds);
    // seconds: until it was durable, of which the step loop stood still for stalled_seconds.
    void checkpoint(std::int64_t step, std::uint64_t bytes, double seconds, double stalled_seconds);
    void warning(std::int64_t step, const std::string& text);
    void bubble(const pipeline::Bubble& bubble);  // once, after the last step
    // peak_resident: of each rank's process, in bytes.
    void end(int exit_code, const std::string& reason, const std::vector<std::int64_t>& peak_resident);

 private:
    std::ofstream out_;
    std::string path_;
};

}  // namespace escalier::train
