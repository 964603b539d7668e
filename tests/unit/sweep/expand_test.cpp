#include "sweep/expand.h"

#include <gtest/gtest.h>

#include "sweep_test_support.h"

namespace escalier::sweep {
namespace {

using namespace testing;
using Names = std::vector<std::string>;

TEST(Expand, TakesEveryCombinationTheLastAxisFastest) {
    const Sweep sweep = expanded("{axes: {pipeline.schedule: [gpipe, 1f1b], parallel.pp: [1, 2]}}");
    EXPECT_EQ(names(sweep), (Names{"schedule-gpipe_pp-1", "schedule-gpipe_pp-2", "schedule-1f1b_pp-1",
                                   "schedule-1f1b_pp-2"}));
    EXPECT_EQ(sweep.folder, "runs/study-sweep");
    EXPECT_EQ(sweep.count(), 4);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(sweep.points[i].index, static_cast<std::int64_t>(i));
    const Point& last = sweep.points[3];
    ASSERT_TRUE(last.possible()) << last.reason;
    EXPECT_EQ(last.spec->pipeline.schedule, "1f1b");
    EXPECT_EQ(last.spec->parallel.pp, 2);
    EXPECT_EQ(last.ranks, 2);
    EXPECT_EQ(last.spec->run.name, "schedule-1f1b_pp-2");
    EXPECT_EQ(last.spec->run.dir, "runs/study-sweep");
    EXPECT_TRUE(last.spec->sweep.axes.empty());
}

TEST(Expand, PutsAPointOverTheFileAndSetOverBoth) {
    const std::string section = "{axes: {train.micro_batch: [2, 4], parallel.pp: [1, 2]}}";
    const Sweep file = expanded(section);
    EXPECT_EQ(file.points[0].spec->train.micro_batch, 2);
    // An axis that --set fixes has one value, and no point comes twice.
    const Sweep fixed = expanded(section, {"train.micro_batch=8", "run.dir=elsewhere", "run.name=other"});
    EXPECT_EQ(names(fixed), (Names{"micro_batch-8_pp-1", "micro_batch-8_pp-2"}));
    EXPECT_EQ(fixed.points[0].spec->train.micro_batch, 8);
    EXPECT_EQ(fixed.folder, "elsewhere/other-sweep");
    EXPECT_EQ(fixed.points[0].spec->run.name, "micro_batch-8_pp-1");
    const Sweep section_set = expanded(section, {"train={micro_batch: 1}"});
    EXPECT_EQ(names(section_set), (Names{"micro_batch-1_pp-1", "micro_batch-1_pp-2"}));
}

TEST(Expand, SetsWhatTheRunNeedsToBeThePoint) {
    const Sweep sweep = expanded("{axes: {parallel.pp: [2], ranks: [4]}}", {"lr.peak=0.5"});
    EXPECT_EQ(overrides_of(sweep, sweep.points[0]),
              (Names{"parallel.pp=2", "lr.peak=0.5", "run.dir=runs/study-sweep", "run.name=pp-2_ranks-4"}));
}

TEST(Expand, LeavesExcludedCombinationsOut) {
    const Sweep sweep = expanded(
        "{axes: {parallel.pp: [1, 2], train.micro_batch: [1, 2, 4]}, exclude: [{parallel.pp: 1, "
        "train.micro_batch: "
        "2}, {train.micro_batch: 4}]}");
    EXPECT_EQ(names(sweep), (Names{"pp-1_micro_batch-1", "pp-2_micro_batch-1", "pp-2_micro_batch-2"}));
    EXPECT_EQ(sweep.points[2].index, 2);
    EXPECT_TRUE(contains(refusal("{axes: {parallel.pp: [1]}, exclude: [{parallel.pp: 1}]}"),
                         "sweep.exclude of jobs/study.yaml leaves no point over"));
}

TEST(Expand, SaysWhyAPointCannotBe) {
    const Sweep sweep = expanded(
        "{axes: {parallel.pp: [1, 8], train.micro_batch: [1, 3], pipeline.schedule: [1f1b, interleaved]}}");
    ASSERT_EQ(sweep.points.size(), 8u);
    const Point& first = sweep.points[0];
    EXPECT_TRUE(first.possible());
    const Point& uneven = sweep.points[2];
    EXPECT_EQ(uneven.name, "pp-1_micro_batch-3_schedule-1f1b");
    EXPECT_FALSE(uneven.possible());
    EXPECT_EQ(uneven.index, -1);
    EXPECT_TRUE(contains(uneven.reason, "train.global_batch")) << uneven.reason;
    const Point& both = sweep.points[6];  // more stages than layers, and a batch that does not divide
    EXPECT_TRUE(contains(both.reason, "; ")) << both.reason;
    EXPECT_TRUE(contains(both.reason, "parallel.pp")) << both.reason;
    EXPECT_FALSE(contains(both.reason, "--set")) << both.reason;
    EXPECT_FALSE(contains(both.reason, "\n")) << both.reason;
    std::int64_t possible = 0;
    for (const Point& point : sweep.points)
        if (point.possible()) {
            EXPECT_EQ(point.index, possible++);
        }
    EXPECT_EQ(possible, sweep.count());
}

TEST(Expand, FindsTheRanks) {
    EXPECT_EQ(expanded("{axes: {parallel.pp: [2]}}").points[0].ranks, 2);  // one replica
    EXPECT_EQ(expanded("{axes: {parallel.pp: [2]}}", {}, 4).points[0].ranks, 4);
    EXPECT_EQ(expanded("{axes: {parallel.pp: [2]}}", {"parallel.dp=4"}).points[0].ranks, 8);
    const Sweep axis = expanded("{axes: {ranks: [2, 3, 4], parallel.pp: [2]}}");
    EXPECT_EQ(axis.points[0].spec->parallel.dp, 1);
    EXPECT_EQ(axis.points[2].spec->parallel.dp, 2);
    EXPECT_TRUE(contains(axis.points[1].reason, "needs 2 processes, got 3")) << axis.points[1].reason;
    EXPECT_EQ(names(expanded("{axes: {ranks: [2, 4]}}", {}, 8)), (Names{"ranks-8"}));
}

TEST(Expand, RefusesAJobWithoutASweep) {
    EXPECT_TRUE(contains(refusal("{}"), "job file jobs/study.yaml sweeps over nothing; give it axes"));
    EXPECT_TRUE(contains(refusal("{axes: {parallel.pp: [1]}}", {"log.jsonl=false"}), "log.jsonl is false"));
    // Faults of the file are no points' reasons.
    EXPECT_TRUE(
        contains(refusal("{axes: {parallel.pp: [1]}}", {"train.steps=none"}), "train.steps: found none"));
    EXPECT_TRUE(
        contains(refusal("{axes: {parallel.pp: [1]}, exclude: [{parallel.tp: 1}]}"), "which is no axis"));
}

}  // namespace
}  // namespace escalier::sweep
