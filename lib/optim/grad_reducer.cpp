#include "optim/grad_reducer.h"

#include <algorithm>
#include <utility>

namespace escalier::optim {

GradientReducer::GradientReducer(const model::ParameterList& parameters, const std::vector<int>& stages,
                                 comm::Communicator& dp, const kernels::Ops& ops, device::Arena& arena,
                                 ReducerOptions options)
    : ops_(ops), chunks_(stages.size()), single_(dp.size() == 1) {
    ESCALIER_CHECK(options.bucket_elements >= 1 && options.slots >= 1, "a reducer needs room");
    if (single_) return;
    std::size_t buckets = 0;
    for (std::size_t chunk = 0; chunk < stages.size(); ++chunk) {
        cut_into_buckets(parameters, stages[chunk], options.bucket_elements, chunks_[chunk]);
        for (Bucket& bucket : chunks_[chunk]) bucket.stage = stages[chunk];
        buckets += chunks_[chunk].size();
    }
    order_.reserve(buckets);
    take_slots(dp, arena, options.slots);
}

GradientReducer::~GradientReducer() = default;

void GradientReducer::cut_into_buckets(const model::ParameterList& parameters, int stage,
                                       std::int64_t bucket_elements, std::vector<Bucket>& buckets) const {
    const std::int64_t pack_below = std::min(pack_below_elements, bucket_elements);
    Bucket open;
    for (const model::Parameter& parameter : parameters) {
        const std::int64_t elements = parameter.gradient.elements();
        if (parameter.stage != stage || elements == 0) continue;
        if (elements < pack_below) {
            if (open.elements() + elements > bucket_elements)
                buckets.push_back(std::exchange(open, Bucket{}));
            open.packed.add(parameter.gradient);
            continue;
        }
        for (std::int64_t begin = 0; begin < elements; begin += bucket_elements) {
            Bucket& bucket = buckets.emplace_back();
            bucket.in_place =
                flat(parameter.gradient).rows(begin, std::min(bucket_elements, elements - begin));
        }
    }
    if (!open.packed.empty()) buckets.push_back(std::move(open));
}

void GradientReducer::take_slots(comm::Communicator& dp, device::Arena& arena, int slots) {
    const std::size_t count = std::min(order_.capacity(), static_cast<std::size_t>(slots));
    slot_busy_.assign(count, false);
    std::vector<std::int64_t> scratch_elements(count, 0), staging_elements(count, 0);
    std::size_t next = 0;
    for (std::vector<Bucket>& buckets : chunks_)
        for (Bucket& bucket : buckets) {
            const std::size_t slot = next++ % count;
            bucket.slot = static_cast<int>(slot);
            scratch_elements[slot] =
                std::max(scratch_elements[slot], dp.all_reduce_scratch_elements(bucket.elements()));
            staging_elements[slot] = std::max(staging_elements[slot], bucket.packed.elements());
        }
    std::vector<TensorView> scratch, staging;
    for (std::size_t slot = 0; slot < count; ++slot) {
        scratch.push_back(arena.take(DType::f32, {scratch_elements[slot]}));
        staging.push_back(arena.take(DType::f32, {staging_elements[slot]}));
    }
    if (arena.measuring()) return;
    for (std::vector<Bucket>& buckets : chunks_)
        for (Bucket& bucket : buckets) {
            const std::size_t slot = static_cast<std::size_t>(bucket.slot);
            if (!bucket.packed.empty()) bucket.staging = staging[slot].rows(0, bucket.packed.elements());
            bucket.operation =
                dp.make_all_reduce(bucket.packed.empty() ? bucket.in_place : bucket.staging,
                                   scratch[slot].rows(0, dp.all_reduce_scratch_elements(bucket.elements())));
        }
}

void GradientReducer::start(const OpContext& context, int chunk) {
    if (chunks_started_++ == 0) times_.clear();
    if (single_) return;
    for (Bucket& bucket : chunks_[static_cast<std::size_t>(chunk)]) order_.push_back(&bucket);
    poll(context);
}

void GradientReducer::poll(const OpContext& context) {
    while (completed_ < started_ && order_[completed_]->operation->done()) complete_oldest(context);
    launch(context);
}

void GradientReducer::finish(const OpContext& context) {
    ESCALIER_CHECK(chunks_started_ == chunks_.size(), "a chunk's gradients were not reduced exactly once");
    while (completed_ < order_.size()) {
        launch(context);
        order_[completed_]->operation->wait("data-parallel sum of gradients");
        complete_oldest(context);
    }
    order_.clear();
    started_ = completed_ = chunks_started_ = 0;
}

std::size_t GradientReducer::reserve_times() {
    times_.reserve(order_.capacity());
    return 2 * order_.capacity();
}

void GradientReducer::settle_times() {
    for (BucketTime& time : times_) {
        time.start = clock_->seconds(static_cast<int>(time.start));
        time.end = clock_->seconds(static_cast<int>(time.end));
    }
}

void GradientReducer::launch(const OpContext& context) {
    while (started_ < order_.size() && !slot_busy_[static_cast<std::size_t>(order_[started_]->slot)]) {
        Bucket& bucket = *order_[started_++];
        slot_busy_[static_cast<std::size_t>(bucket.slot)] = true;
        bucket.packed.pack(context, ops_, bucket.staging);
        if (clock_) {
            bucket.time = static_cast<int>(times_.size());
            times_.push_back({bucket.stage, bucket.elements(), static_cast<double>(clock_->mark()), 0});
        }
        bucket.operation->start();
    }
}

void GradientReducer::complete_oldest(const OpContext& context) {
    Bucket& bucket = *order_[completed_++];
    bucket.packed.unpack(context, ops_, bucket.staging);
    if (bucket.time >= 0) times_[static_cast<std::size_t>(bucket.time)].end = clock_->mark();
    bucket.time = -1;
    slot_busy_[static_cast<std::size_t>(bucket.slot)] = false;
}

}  // namespace escalier::optim
