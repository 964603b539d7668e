#include "pipeline/paced_stage.h"

namespace escalier::pipeline {

using model::SegmentType;
using schedule::ActionKind;

namespace {

int last_compute(std::span<const model::Segment> segments) {
    auto last = static_cast<int>(segments.size()) - 1;
    while (last > 0 && segments[static_cast<std::size_t>(last)].type != SegmentType::compute) --last;
    return last;
}

}  // namespace

PacedStage::PacedStage(model::Stage& inner, int stage, const schedule::Durations& durations)
    : inner_(inner),
      forward_(durations.forward.at(static_cast<std::size_t>(stage))),
      input_gradient_(durations.input_gradient.at(static_cast<std::size_t>(stage))),
      weight_gradient_(durations.weight_gradient.at(static_cast<std::size_t>(stage))) {}

double PacedStage::duration(ActionKind kind) const {
    switch (kind) {
        case ActionKind::F:
            return forward_;
        case ActionKind::I:
            return input_gradient_;
        case ActionKind::W:
            return weight_gradient_;
        case ActionKind::B:
            return input_gradient_ + weight_gradient_;
    }
    return 0;
}

void PacedStage::run(int segment, const model::StageIo& io) {
    const std::span<const model::Segment> all = segments(io.action.kind);
    if (segment == 0) worked_ = 0;
    const double start = clock_.now();
    inner_.run(segment, io);
    if (all[static_cast<std::size_t>(segment)].type != SegmentType::compute) return;
    worked_ += clock_.now() - start;
    const double left = duration(io.action.kind) - worked_;
    if (segment == last_compute(all) && left > 0) clock_.spend(left);
}

}  // namespace escalier::pipeline
