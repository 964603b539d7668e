// What the executor drives: one stage's work on one micro-batch, as ordered segments.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/tensor_view.h"
#include "schedule/program.h"

namespace escalier::model {

enum class SegmentType : std::uint8_t { compute, collective };
// Which part of the model it works on; layer_again: what recompute does anew.
enum class SegmentPart : std::uint8_t { embedding, layer, layer_again, head };

// One piece of an action. Between segments the executor polls messages; a collective exchanges with the
// tensor group.
struct Segment {
    SegmentType type;
    std::string label;  // "attention of layer 3"
    SegmentPart part = SegmentPart::layer;
};

// What an action works on. Boundary tensors are [R,C] buffers of the executor; without data where the stage
// has no such neighbour.
struct StageIo {
    schedule::Action action;
    schedule::Binding binding;  // slots
    TensorView input;
    TensorView output;
    TensorView output_gradient;
    TensorView input_gradient;
};

class Stage {
 public:
    virtual ~Stage() = default;
    // The segments of an action kind, the same for every micro-batch; fixed from construction on.
    virtual std::span<const Segment> segments(schedule::ActionKind kind) const = 0;
    virtual void run(int segment, const StageIo& io) = 0;
    // A collective that can run behind another stage's compute: begins it and returns true; finish() ends it
    // before this stage's next segment. False: nothing was begun, run() it.
    virtual bool start(int /*segment*/, const StageIo& /*io*/) { return false; }
    virtual void finish(int /*segment*/, const StageIo& /*io*/) {}
};

}  // namespace escalier::model
