#include "pipeline/step_split.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace escalier::pipeline {
namespace {

using schedule::Action;
using schedule::ActionKind;

StepTimes step_of(double start, double end, double compute) {
    StepTimes times;
    times.start = start;
    times.end = end;
    times.compute = compute;
    return times;
}

double sum(const StepSplit& s) {
    return s.compute + s.tensor_collectives + s.exposed + s.bubble + s.rest;
}

TEST(StepSplit, AWaitIsBubbleUntilItsProducerIsDone) {
    ActionEnds ends(3, 2);
    ends.set({ActionKind::F, 0, 1}, 14);
    ends.set({ActionKind::B, 2, 1}, 17);
    StepTimes times = step_of(10, 20, 5);
    times.waits.push_back({{ActionKind::F, 1, 1}, false, false, 12, 15});
    times.waits.push_back({{ActionKind::B, 1, 1}, true, false, 16, 17.5});
    const StepSplit split = split_step(times, ends, 23);
    EXPECT_DOUBLE_EQ(split.bubble, 2 + 1);
    EXPECT_DOUBLE_EQ(split.exposed, 1 + 0.5);
    EXPECT_DOUBLE_EQ(split.rest, 0.5);
    EXPECT_DOUBLE_EQ(split.tail, 3);
    EXPECT_DOUBLE_EQ(sum(split), 10);
}

TEST(StepSplit, ProducersBeforeAndAfterTheWaitAreClamped) {
    ActionEnds ends(2, 1);
    ends.set({ActionKind::F, 0, 0}, 1);
    StepTimes times = step_of(10, 20, 0);
    times.waits.push_back({{ActionKind::F, 1, 0}, false, false, 12, 15});
    EXPECT_DOUBLE_EQ(split_step(times, ends, 20).exposed, 3);
    EXPECT_DOUBLE_EQ(split_step(times, ends, 20).bubble, 0);
    ends.set({ActionKind::F, 0, 0}, 99);  // a clock that is a little off must not make negative parts
    EXPECT_DOUBLE_EQ(split_step(times, ends, 20).exposed, 0);
    EXPECT_DOUBLE_EQ(split_step(times, ends, 20).bubble, 3);
    EXPECT_DOUBLE_EQ(split_step(times, ends, 0).tail, 0);
}

TEST(StepSplit, InputGradientsOfSplitBackwardsAreProducersAndWeightGradientsAreNot) {
    ActionEnds ends(2, 1);
    ends.set({ActionKind::I, 1, 0}, 13);
    ends.set({ActionKind::W, 1, 0}, 14);
    EXPECT_DOUBLE_EQ(ends.producer_of({ActionKind::I, 0, 0}, true), 13);
}

TEST(StepSplit, WaitsForBuffersAreExposedCommunication) {
    ActionEnds ends(2, 1);
    StepTimes times = step_of(0, 10, 8);
    times.tensor_collectives = 0.5;
    times.waits.push_back({{ActionKind::F, 0, 0}, false, true, 4, 5});
    const StepSplit split = split_step(times, ends, 10);
    EXPECT_DOUBLE_EQ(split.exposed, 1);
    EXPECT_DOUBLE_EQ(split.bubble, 0);
    EXPECT_DOUBLE_EQ(split.tensor_collectives, 0.5);
    EXPECT_DOUBLE_EQ(sum(split), 10);
}

TEST(StepSplit, AsksForNoActionThatDoesNotExist) {
    ActionEnds ends(2, 3);
    EXPECT_THROW(ends.producer_of({ActionKind::F, 0, 0}, false), InternalError);
    EXPECT_THROW(ends.producer_of({ActionKind::B, 1, 0}, true), InternalError);
    EXPECT_THROW(ends.set({ActionKind::F, 0, 3}, 1), InternalError);
}

}  // namespace
}  // namespace escalier::pipeline
