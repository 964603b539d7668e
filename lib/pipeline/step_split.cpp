#include "pipeline/step_split.h"

#include <algorithm>

#include "core/check.h"

namespace escalier::pipeline {

using schedule::Action;
using schedule::ActionKind;

ActionEnds::ActionEnds(int stages, int micro_batches) : stages_(stages), micro_batches_(micro_batches) {
    const auto count = static_cast<std::size_t>(stages) * static_cast<std::size_t>(micro_batches);
    forward_.assign(count, 0);
    backward_.assign(count, 0);
}

std::size_t ActionEnds::at(int stage, int micro_batch) const {
    ESCALIER_CHECK(stage >= 0 && stage < stages_ && micro_batch >= 0 && micro_batch < micro_batches_,
                   "no such action");
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(micro_batches_) +
           static_cast<std::size_t>(micro_batch);
}

void ActionEnds::set(const Action& action, double end) {
    if (action.kind == ActionKind::W) return;
    (action.kind == ActionKind::F ? forward_ : backward_)[at(action.stage, action.micro_batch)] = end;
}

double ActionEnds::producer_of(const Action& action, bool gradient) const {
    return gradient ? backward_[at(action.stage + 1, action.micro_batch)]
                    : forward_[at(action.stage - 1, action.micro_batch)];
}

StepSplit split_step(const StepTimes& times, const ActionEnds& ends, double last_end) {
    StepSplit split;
    split.compute = times.compute;
    split.tensor_collectives = times.tensor_collectives;
    for (const WaitTime& wait : times.waits) {
        const double produced =
            wait.sending ? wait.start
                         : std::clamp(ends.producer_of(wait.action, wait.gradient), wait.start, wait.end);
        split.bubble += produced - wait.start;
        split.exposed += wait.end - produced;
    }
    split.rest =
        times.end - times.start - split.compute - split.tensor_collectives - split.bubble - split.exposed;
    split.tail = std::max(0.0, last_end - times.end);
    return split;
}

}  // namespace escalier::pipeline
