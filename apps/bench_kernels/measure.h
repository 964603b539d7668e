// The time of every kernel beside the least that it could take.
#pragma once

#include <string>

#include "core/compute_pool.h"
#include "kernel_case.h"
#include "train/backend.h"

namespace escalier::bench {

struct MeasureOptions {
    int rounds = 5;        // times that all cases are measured in turn; medians are printed
    double least_ms = 20;  // per case and round
    bool cpu_time = false;
    std::int64_t ceiling_extent =
        0;              // of the large product, and its square of the large copy; 0: what suits the device
    bool json = false;  // one object a line instead of the table
    std::string only;   // cases whose name contains this text
};

// The floor of a case is its FLOPs at the rate of a large product or its bytes at the rate of a large copy,
// whichever takes longer; both rates are measured through the same ops, next to every case, so that the
// shares hold on a machine whose speed drifts.
void measure_kernels(const CaseSettings& settings, const MeasureOptions& options, train::Backend& backend,
                     ComputePool& pool);

}  // namespace escalier::bench
