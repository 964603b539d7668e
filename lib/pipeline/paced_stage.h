// A stage whose actions last at least as long as set: it works, then sleeps for what is left. So ranks that
// share cores take the time of ranks that have their own, and compute the same.
#pragma once

#include "model/stage.h"
#include "pipeline/clock.h"
#include "schedule/simulate.h"

namespace escalier::pipeline {

class PacedStage final : public model::Stage {
 public:
    // durations: in seconds; `stage` is the one of them that `inner` is. Only for stages whose work is done
    // when run() returns.
    PacedStage(model::Stage& inner, int stage, const schedule::Durations& durations);

    std::span<const model::Segment> segments(schedule::ActionKind kind) const override {
        return inner_.segments(kind);
    }
    // Sleeps at the end of the action's last compute segment.
    void run(int segment, const model::StageIo& io) override;
    bool start(int segment, const model::StageIo& io) override { return inner_.start(segment, io); }
    void finish(int segment, const model::StageIo& io) override { inner_.finish(segment, io); }

 private:
    model::Stage& inner_;
    int stage_;
    schedule::Durations durations_;
    SleepClock clock_;
    double worked_ = 0;  // of the action under way, in its compute segments
};

}  // namespace escalier::pipeline
