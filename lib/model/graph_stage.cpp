#include "model/graph_stage.h"

namespace escalier::model {

using schedule::ActionKind;

GraphStage::GraphStage(StageModel& stage, device::Device& device) : stage_(stage), device_(device) {
    for (const ActionKind kind : {ActionKind::F, ActionKind::B, ActionKind::I, ActionKind::W})
        plans_[static_cast<std::size_t>(kind)] = merged(stage.segments(kind));
}

// Compute segments in a row become one.
GraphStage::Plan GraphStage::merged(std::span<const Segment> segments) {
    Plan plan;
    for (int i = 0; i < static_cast<int>(segments.size()); ++i) {
        const Segment& segment = segments[static_cast<std::size_t>(i)];
        const bool compute = segment.type == SegmentType::compute;
        if (compute && !plan.segments.empty() && plan.segments.back().type == SegmentType::compute) {
            plan.runs.back().end = i + 1;
            continue;
        }
        plan.segments.push_back(segment);
        plan.runs.push_back({i, i + 1});
    }
    return plan;
}

std::span<const Segment> GraphStage::segments(ActionKind kind) const {
    return plan_of(kind).segments;
}

int GraphStage::first_of(int segment, const StageIo& io) const {
    return plan_of(io.action.kind).runs[static_cast<std::size_t>(segment)].first;
}

void GraphStage::run(int segment, const StageIo& io) {
    const Plan& plan = plan_of(io.action.kind);
    if (segment == 0) stage_.begin_action(io);
    if (plan.segments[static_cast<std::size_t>(segment)].type == SegmentType::compute)
        replay(segment, io);
    else
        stage_.run_ops(first_of(segment, io), io);
    if (static_cast<std::size_t>(segment) + 1 == plan.segments.size()) stage_.end_action(io);
}

bool GraphStage::start(int segment, const StageIo& io) {
    return stage_.start(first_of(segment, io), io);
}

void GraphStage::finish(int segment, const StageIo& io) {
    stage_.finish(first_of(segment, io), io);
}

GraphStage::Key GraphStage::key_of(int segment, const StageIo& io) const {
    const schedule::Binding& b = io.binding;
    std::uintptr_t flags = 0;
    for (const bool flag : stage_.overwrites()) flags = 2 * flags + (flag ? 1 : 0);
    const auto number = [](int value) { return static_cast<std::uintptr_t>(value); };
    const auto address = [](const TensorView& view) { return reinterpret_cast<std::uintptr_t>(view.data()); };
    return {number(static_cast<int>(io.action.kind)),
            number(segment),
            flags,
            number(b.forward_slot),
            number(b.linear_input_slot),
            number(b.output_gradient_slot),
            address(io.input),
            address(io.output),
            address(io.output_gradient),
            address(io.input_gradient)};
}

void GraphStage::replay(int segment, const StageIo& io) {
    const Key key = key_of(segment, io);
    auto found = graphs_.find(key);
    if (found == graphs_.end()) {
        const Run run = plan_of(io.action.kind).runs[static_cast<std::size_t>(segment)];
        found = graphs_
                    .emplace(key, device_.capture([&] {
                        for (int i = run.first; i < run.end; ++i) stage_.run_ops(i, io);
                    }))
                    .first;
    }
    found->second->launch();
}

}  // namespace escalier::model
