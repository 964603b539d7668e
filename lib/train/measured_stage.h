// What one stage alone takes of a rank, measured by its constructors and taken apart, so that the memory of
// many jobs is a sum (memory_oracle.h).
#pragma once

#include <compare>
#include <cstdint>

#include "config/job_spec.h"
#include "core/compute_pool.h"
#include "train/memory_plan.h"

namespace escalier::train {

// In memory of the device and of the host; on the CPU all is of the host.
struct Bytes {
    std::int64_t device = 0, host = 0;

    Bytes operator+(const Bytes& other) const { return {device + other.device, host + other.host}; }
    Bytes operator-(const Bytes& other) const { return {device - other.device, host - other.host}; }
    Bytes operator*(std::int64_t times) const { return {device * times, host * times}; }
    Bytes operator/(std::int64_t parts) const { return {device / parts, host / parts}; }
};

// What it depends on besides the job's model, optimizer and device.
struct StageKind {
    std::int64_t tp = 1, micro_batch = 1;
    std::int64_t layers = 0;  // 0: no stage, what a rank takes without any
    config::Recompute recompute = config::Recompute::none;
    std::int64_t every = 1;
    bool split = false, overlaps = false;  // of the schedule
    bool first = false, last = false;
    auto operator<=>(const StageKind&) const = default;
};

// One slot: of the blocks, which stages may have in common, and what the ends of the model keep in it.
struct SlotBytes {
    Bytes blocks, ends;
};

struct MeasuredStage {
    Bytes fixed;  // without slots and boundary buffers, on a rank of its own
    SlotBytes forward_slot, linear_input_slot, gradient_slot;
    Bytes boundary;                                // one buffer of a ring
    Bytes tokens;                                  // one micro-batch more
    Bytes table;                                   // a tied head's that has its own
    Bytes checkpoint;                              // staging of the whole state
    std::int64_t elements = 0;                     // of its gradients
    std::int64_t buckets = 0, largest_bucket = 0;  // of the sums over replicas; elements
};

MeasuredStage measure_stage(const config::JobSpec& settled, const StageKind& kind,
                            const PlannedMachine& machine, ComputePool& pool);

// `stage` with so many layers more, each of which adds what `next` has beyond it.
MeasuredStage extended(const MeasuredStage& stage, const MeasuredStage& next, std::int64_t layers);

}  // namespace escalier::train
