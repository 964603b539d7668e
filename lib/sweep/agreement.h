// Whether the losses of a sweep's runs agree where they must.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "config/job_spec.h"
#include "sweep/run_metrics.h"

namespace escalier::sweep {

// What a run's numbers depend on, as text that is equal where they must agree.
struct ResultKey {
    std::string training;  // equal: to rounding
    std::string bits;      // equal too: to the bit; empty: not even the like of it is promised
};

// spec: resolved. exact_schedule: results do not depend on its order (schedule/prove.h). Bits follow from
// seed, data, model, batches, tp and dp; pp, schedule, chunks, layout and recompute change none. Across tp,
// dp and micro-batch sizes fp32 agrees to rounding; for other types nothing is promised there.
ResultKey result_key(const config::JobSpec& spec, bool exact_schedule);

struct ComparedRun {
    std::string name;  // for texts: "#3"
    ResultKey key;
    const RunMetrics* metrics = nullptr;
};

enum class Agreement {
    alone,      // no other run to compare with
    reference,  // the one that others are compared with
    same_bits,  // losses and norms of all steps in common
    close,      // losses of the first steps to rounding
    differs
};

struct Comparison {
    Agreement agreement = Agreement::alone;
    std::string text;
};

// Each run with the first before it that it must equal to the bit, else with the first of the same training.
std::vector<Comparison> compare(const std::vector<ComparedRun>& runs);

}  // namespace escalier::sweep
