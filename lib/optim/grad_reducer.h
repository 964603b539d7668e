// The sum of the main gradients over the data-parallel replicas, in rank order, in the background.
//
// A stage's gradients are cut into buckets: slices of large gradients, summed in place, and groups of small
// ones, packed. Every element is summed on its own in rank order, so neither the bucket size nor the order in
// which stages start changes a bit. Buckets under way share a fixed number of scratch slots.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "device/arena.h"
#include "device/device.h"
#include "kernels/ops.h"
#include "model/parameter.h"
#include "optim/packed_views.h"

namespace escalier::optim {

struct ReducerOptions {
    // Large enough that comm's progress thread has work between two polls.
    std::int64_t bucket_elements = std::int64_t{1} << 23;  // at most this many in one message; >= 1
    int slots = 8;                                         // messages under way at once; >= 1
};

// The sum of one bucket, from its start until this rank took it in. Seconds once settled.
struct BucketTime {
    int stage = 0;
    std::int64_t elements = 0;
    double start = 0;
    double end = 0;
};

class GradientReducer {
 public:
    // parameters: of this rank. stages: the stage of each chunk of this rank. Takes its scratch from `arena`;
    // a measuring arena needs of `dp` only size() and all_reduce_scratch_elements(). One replica: takes and
    // does nothing.
    GradientReducer(const model::ParameterList& parameters, const std::vector<int>& stages,
                    comm::Communicator& dp, const kernels::Ops& ops, device::Arena& arena,
                    ReducerOptions options = {});
    ~GradientReducer();
    GradientReducer(const GradientReducer&) = delete;
    GradientReducer& operator=(const GradientReducer&) = delete;

    // Once per step and chunk, when the last micro-batch has added to the chunk's gradients; all replicas in
    // the same order of chunks.
    void start(const OpContext& context, int chunk);
    // Takes in what has arrived and starts what has room; never waits.
    void poll(const OpContext& context);
    // Waits for all chunks. Afterwards every replica holds the same sums.
    void finish(const OpContext& context);

    // Takes memory for the times of a step's buckets; returns how many marks of the device they are.
    std::size_t reserve_times();
    // From the next step on with this device's marks; null: not at all. To be settled when the device has
    // passed the step's marks and before they are cleared.
    void record_times(device::Device* device) { clock_ = device; }
    void settle_times();
    const std::vector<BucketTime>& times() const { return times_; }  // of the last step

 private:
    struct Bucket {
        TensorView in_place;  // without elements: packed
        PackedViews packed;
        TensorView staging;
        int slot = 0;
        int stage = 0;
        int time = -1;  // its place in times_; -1: not recorded
        std::unique_ptr<comm::AllReduce> operation;

        std::int64_t elements() const { return in_place.elements() + packed.elements(); }
    };

    void cut_into_buckets(const model::ParameterList& parameters, int stage, std::int64_t bucket_elements,
                          std::vector<Bucket>& buckets) const;
    void take_slots(comm::Communicator& dp, device::Arena& arena, int slots);
    void launch(const OpContext& context);
    void complete_oldest(const OpContext& context);

    const kernels::Ops& ops_;
    std::vector<std::vector<Bucket>> chunks_;
    std::vector<bool> slot_busy_;
    std::vector<Bucket*> order_;  // buckets of this step in starting order
    std::size_t started_ = 0;
    std::size_t completed_ = 0;
    std::size_t chunks_started_ = 0;
    bool single_ = true;
    device::Device* clock_ = nullptr;
    std::vector<BucketTime> times_;
};

}  // namespace escalier::optim
