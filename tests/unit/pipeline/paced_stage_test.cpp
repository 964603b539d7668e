#include "pipeline/paced_stage.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/clock.h"

namespace escalier::pipeline {
namespace {

using model::SegmentType;
using schedule::ActionKind;

class Recorder final : public model::Stage {
 public:
    std::span<const model::Segment> segments(ActionKind) const override { return segments_; }
    void run(int segment, const model::StageIo&) override { ran.push_back(segment); }
    bool start(int segment, const model::StageIo&) override {
        started = segment;
        return true;
    }
    void finish(int segment, const model::StageIo&) override { finished = segment; }

    std::vector<int> ran;
    int started = -1, finished = -1;

 private:
    std::vector<model::Segment> segments_ = {{SegmentType::compute, "a"},
                                             {SegmentType::collective, "sum"},
                                             {SegmentType::compute, "b"},
                                             {SegmentType::collective, "sum"}};
};

// Seconds of each segment of an action, run in turn.
std::vector<double> seconds_of(PacedStage& stage, ActionKind kind) {
    model::StageIo io{};
    io.action.kind = kind;
    std::vector<double> seconds;
    for (int segment = 0; segment < static_cast<int>(stage.segments(kind).size()); ++segment) {
        const double start = now_seconds();
        stage.run(segment, io);
        seconds.push_back(now_seconds() - start);
    }
    return seconds;
}

TEST(PacedStage, LetsAnActionLastAsLongAsSet) {
    Recorder inner;
    schedule::Durations durations = schedule::Durations::uniform(2, 0, 0, 0, 0);
    durations.forward[1] = 0.010;
    durations.input_gradient[1] = 0.020;
    durations.weight_gradient[1] = 0.015;
    PacedStage stage(inner, 1, durations);
    const auto lasts = [&](ActionKind kind, double least) {
        inner.ran.clear();
        const std::vector<double> seconds = seconds_of(stage, kind);
        EXPECT_EQ(inner.ran, (std::vector<int>{0, 1, 2, 3}));
        // In the last segment that computes: a sum of the tensor group must not seem slow.
        EXPECT_GE(seconds[2] + seconds[0], least);
        EXPECT_GE(seconds[2], 0.5 * least);
    };
    lasts(ActionKind::F, 0.010);
    lasts(ActionKind::I, 0.020);
    lasts(ActionKind::W, 0.015);
    lasts(ActionKind::B, 0.035);
}

TEST(PacedStage, HandsCollectivesOn) {
    Recorder inner;
    PacedStage stage(inner, 0, schedule::Durations::uniform(1, 0, 0, 0, 0));
    EXPECT_TRUE(stage.start(1, {}));
    stage.finish(1, {});
    EXPECT_EQ(inner.started, 1);
    EXPECT_EQ(inner.finished, 1);
}

}  // namespace
}  // namespace escalier::pipeline
