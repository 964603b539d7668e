// The window of steps that log.trace asks for, as every rank saw it.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/mpi_env.h"
#include "core/trace.h"
#include "report/trace_file.h"
#include "train/assembly.h"
#include "train/step_report.h"

namespace escalier::train {

class StepTrace {
 public:
    // Takes all its memory.
    StepTrace(Assembly& assembly, const StepReporter& reporter);

    // Round every step; reported: it has been through StepReporter::collect.
    void begin(std::int64_t step);
    void end_reported(const StepResult& result);

    // The window is over; a resume may have entered it midway.
    bool complete() const { return steps_done_ > 0 && step_ >= window_.start + window_.steps - 1; }
    std::int64_t steps_done() const { return steps_done_; }

    // Collective: the traces of all ranks, on rank 0.
    std::vector<report::RankTrace> gather(comm::MpiEnv& env) const;

 private:
    TraceSpan span(TraceStream stream, TraceKind kind, double start, double end) const;
    TraceSpan span_of(const schedule::Action& action, TraceStream stream, TraceKind kind, double start,
                      double end) const;
    void add_actions(const pipeline::StepTimes& times);
    void add_waits(const pipeline::StepTimes& times);
    void add_messages(const pipeline::StepTimes& times);
    void add_phases(const StepResult& result);

    Assembly& assembly_;
    const StepReporter& reporter_;
    config::TraceConfig window_;
    std::vector<int> chunk_of_place_;  // on this rank
    TraceBuffer buffer_;
    std::int64_t step_ = 0;
    std::int64_t steps_done_ = 0;
    bool tracing_ = false;
    double first_start_ = 0, last_end_ = 0;
};

}  // namespace escalier::train
