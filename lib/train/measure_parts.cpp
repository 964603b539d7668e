#include "train/measure_parts.h"

#include <vector>

namespace escalier::train {

namespace {

using schedule::ActionKind;

struct Mark {
    ActionKind kind;
    const model::Segment* segment;
    int begin, end;
};

double& forward_or_half(config::PartTimes& part, ActionKind kind) {
    switch (kind) {
        case ActionKind::F:
            return part.forward;
        case ActionKind::B:
            return part.backward;
        case ActionKind::I:
            return part.input_gradient;
        case ActionKind::W:
            break;
    }
    return part.weight_gradient;
}

void add(PartSample& sample, const Mark& mark, double seconds) {
    const bool exchange = mark.segment->type == model::SegmentType::collective;
    if (mark.segment->part == model::SegmentPart::layer_again) {
        sample.again += seconds;
        if (exchange) sample.again_exchange += seconds;
        return;
    }
    config::PartTimes& part = mark.segment->part == model::SegmentPart::embedding ? sample.embedding
                              : mark.segment->part == model::SegmentPart::head    ? sample.head
                                                                                  : sample.layer;
    forward_or_half(part, mark.kind) += seconds;
    if (exchange) (mark.kind == ActionKind::F ? part.forward_exchange : part.backward_exchange) += seconds;
}

void scale(config::PartTimes& part, double factor) {
    for (double* value : {&part.forward, &part.backward, &part.input_gradient, &part.weight_gradient,
                          &part.forward_exchange, &part.backward_exchange})
        *value *= factor;
}

}  // namespace

PartSample measure_parts(Assembly& assembly, comm::MpiEnv& env) {
    device::Device& device = *assembly.backend().device;
    const config::JobSpec& spec = assembly.spec();
    model::StageModel& stage = assembly.model().stage(0);
    assembly.model().begin_step(true);
    std::vector<Mark> marks;
    int before = device.mark();
    for (const schedule::Instruction& instruction : assembly.programs()[0].instructions) {
        if (instruction.kind != schedule::InstructionKind::compute) continue;
        const model::StageIo io{instruction.action, instruction.binding, {}, {}, {}, {}};
        const std::span<const model::Segment> segments = stage.segments(instruction.action.kind);
        for (std::size_t i = 0; i < segments.size(); ++i) {
            stage.run(static_cast<int>(i), io);
            const int after = device.mark();
            marks.push_back({instruction.action.kind, &segments[i], before, after});
            before = after;
        }
    }
    assembly.backend().wait(env, "the device to finish a measurement");
    PartSample sample;
    for (const Mark& mark : marks) add(sample, mark, device.seconds(mark.end) - device.seconds(mark.begin));
    device.clear_marks();
    const double micro_batches = static_cast<double>(spec.micro_batches());
    const double layers = static_cast<double>(spec.model.num_layers);
    scale(sample.embedding, 1 / micro_batches);
    scale(sample.head, 1 / micro_batches);
    scale(sample.layer, 1 / (micro_batches * layers));
    sample.again /= micro_batches * layers;
    sample.again_exchange /= micro_batches * layers;
    return sample;
}

}  // namespace escalier::train
