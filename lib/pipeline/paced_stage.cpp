#include "pipeline/paced_stage.h"

namespace escalier::pipeline {

using model::SegmentType;

namespace {

int last_compute(std::span<const model::Segment> segments) {
    auto last = static_cast<int>(segments.size()) - 1;
    while (last > 0 && segments[static_cast<std::size_t>(last)].type != SegmentType::compute) --last;
    return last;
}

}  // namespace

PacedStage::PacedStage(model::Stage& inner, int stage, const schedule::Durations& durations)
    : inner_(inner), stage_(stage), durations_(durations) {}

void PacedStage::run(int segment, const model::StageIo& io) {
    const std::span<const model::Segment> all = segments(io.action.kind);
    if (segment == 0) worked_ = 0;
    const double start = clock_.now();
    inner_.run(segment, io);
    if (all[static_cast<std::size_t>(segment)].type != SegmentType::compute) return;
    worked_ += clock_.now() - start;
    const double left = durations_.of(io.action.kind, stage_) - worked_;
    if (segment == last_compute(all) && left > 0) clock_.spend(left);
}

}  // namespace escalier::pipeline
