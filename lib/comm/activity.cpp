#include "comm/activity.h"

namespace escalier::comm {

namespace {

std::string name(Doing doing) {
    switch (doing) {
        case Doing::forward:
            return "F";
        case Doing::backward:
            return "B";
        case Doing::input_gradients:
            return "I";
        case Doing::weight_gradients:
            return "W";
        case Doing::start_up:
            return "the start-up";
        case Doing::loading_data:
            return "data loading";
        case Doing::reducing_gradients:
            return "the reduction of gradients";
        case Doing::optimizer:
            return "the optimizer";
        case Doing::reporting:
            return "the report of a step";
        case Doing::validation:
            return "validation";
        case Doing::saving:
            return "saving a checkpoint";
        case Doing::loading_checkpoint:
            return "loading a checkpoint";
        case Doing::drawing:
            return "the draw of token ";
    }
    return "something unknown";
}

}  // namespace

std::string ActivityReport::text() const {
    if (doing == Doing::drawing) return name(doing) + std::to_string(micro_batch);
    if (!is_action()) return name(doing);
    return name(doing) + "(" + std::to_string(stage) + "," + std::to_string(micro_batch) + ")";
}

ActivityReport Activity::report() const {
    const std::uint64_t what = what_.load(std::memory_order_acquire);
    ActivityReport report;
    report.doing = static_cast<Doing>(what >> 56);
    report.stage = static_cast<int>(what >> 32 & 0xffffff);
    report.micro_batch = static_cast<int>(what & 0xffffffff);
    report.seconds = now_seconds() - since_.load(std::memory_order_relaxed);
    report.waiting = waiting_.load(std::memory_order_relaxed);
    return report;
}

}  // namespace escalier::comm
