// What a rank did and when, collected over a window of steps: spans of time on a few streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace escalier {

enum class TraceStream : std::uint8_t {
    steps,
    compute,  // actions, and the waits between them
    tensor,   // collectives of the tensor group
    sent,     // messages between stages
    received,
    gradient_sums,  // over replicas, in the background
    reductions,     // what the step waits for: the rest of those sums, completion, norm, loss
    optimizer,
    data,
    writer,  // of checkpoints
};
inline constexpr int trace_streams = 10;

enum class TraceKind : std::uint8_t {
    step,
    forward,  // these four in the order of schedule::ActionKind
    backward,
    input_gradients,
    weight_gradients,
    bubble,        // waiting for a producer that was still computing
    message_wait,  // waiting for a message that was under way
    room_wait,     // waiting for a sent message to be taken, so that its buffer is free
    tail,          // waiting for the pipeline's last rank
    tensor_collective,
    activation,  // a message
    gradient,    // a message
    gradient_sum,
    reduction,
    loss_sum,
    update,
    batch,
    save,
};

// Travels between ranks as it is.
struct TraceSpan {
    double start = 0;  // seconds of this rank's core/clock.h
    double end = 0;
    std::int64_t step = 0;
    std::int64_t amount = 0;        // elements of a gradient_sum
    std::int32_t stage = -1;        // -1: of no stage
    std::int32_t chunk = -1;        // of the stage on its rank
    std::int32_t micro_batch = -1;  // -1: of none
    TraceStream stream = TraceStream::steps;
    TraceKind kind = TraceKind::step;
};

// Room for a set number of spans; what comes later is counted and dropped.
class TraceBuffer {
 public:
    explicit TraceBuffer(std::size_t capacity) { spans_.reserve(capacity); }
    void add(const TraceSpan& span) {
        if (spans_.size() < spans_.capacity())
            spans_.push_back(span);
        else
            ++dropped_;
    }
    const std::vector<TraceSpan>& spans() const { return spans_; }
    std::int64_t dropped() const { return dropped_; }

 private:
    std::vector<TraceSpan> spans_;
    std::int64_t dropped_ = 0;
};

}  // namespace escalier
