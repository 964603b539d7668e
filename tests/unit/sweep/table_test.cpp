#include "sweep/table.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include "config/dump.h"
#include "sweep/outcome.h"
#include "sweep/run_state.h"
#include "sweep_test_support.h"
#include "tests/harness/temp_folder.h"

namespace escalier::sweep {
namespace {

using namespace testing;

const std::string axes = "{axes: {parallel.pp: [1, 2, 8], train.micro_batch: [1, 2]}}";

// What a run of the point leaves, `steps` of train.steps done.
void leave_run(const test::TempFolder& folder, const Point& point, int steps, double loss, int code = 0) {
    config::JobSpec spec = *point.spec;
    spec.run.device = "cpu";  // as the machine settles it
    spec.run.comm = "mpi";
    spec.train.dtype = "fp32";
    spec.sweep = {};
    folder.write("runs/study-sweep/" + point.name + "/config.yaml", config::dump(spec));
    std::string lines = "{\"event\":\"start\",\"first_step\":1,\"predicted_bubble\":0.125}\n";
    for (int step = 1; step <= steps; ++step)
        lines += "{\"event\":\"step\",\"step\":" + std::to_string(step) +
                 ",\"loss\":" + std::to_string(loss / step) +
                 ",\"grad_norm\":1.0,\"step_ms\":50.0,\"tokens_per_s\":12345.0,\"bubble\":0.1}\n";
    if (code == 0 || code == 75)
        lines += "{\"event\":\"end\",\"exit_code\":" + std::to_string(code) + ",\"reason\":\"over\"}\n";
    folder.write("runs/study-sweep/" + point.name + "/metrics.jsonl", lines);
}

struct Study {
    test::TempFolder temporary;
    Sweep sweep = expanded(axes, {"train.steps=3", "run.dir=" + temporary.path() + "/runs"});
    SweepFolder folder{sweep.folder};
    std::vector<Row> rows() const {
        const TableQuestion question{
            [](const config::JobSpec& spec) { return 40.0 + double(spec.parallel.pp); },
            [](const config::JobSpec&) { return true; }};
        return collect(sweep, folder, question);
    }
};

TEST(RunState, TellsFinishedInterruptedAndForeignRunsApart) {
    const Study study;
    const Point& point = study.sweep.points[0];
    const std::string run = study.folder.run(point.name);
    EXPECT_EQ(run_state(run, *point.spec).stage, RunStage::absent);
    leave_run(study.temporary, point, 3, 2.5);
    EXPECT_EQ(run_state(run, *point.spec).stage, RunStage::finished);
    EXPECT_FALSE(run_state(run, *point.spec).has_checkpoint);
    leave_run(study.temporary, point, 2, 2.5, 75);
    EXPECT_EQ(run_state(run, *point.spec).stage, RunStage::interrupted);
    leave_run(study.temporary, point, 3, 2.5, -1);  // struck at its very end
    EXPECT_EQ(run_state(run, *point.spec).stage, RunStage::interrupted);

    {
        const int lock = ::open((run + "/.lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
        ASSERT_EQ(::flock(lock, LOCK_EX | LOCK_NB), 0);
        EXPECT_EQ(run_state(run, *point.spec).stage, RunStage::running);
        ::close(lock);
    }
    leave_run(study.temporary, point, 3, 2.5);
    config::JobSpec other = *point.spec;
    other.log.every = 7;  // of what is shown alone
    EXPECT_EQ(run_state(run, other).stage, RunStage::finished);
    other.lr.peak = 0.5;
    const RunState changed = run_state(run, other);
    EXPECT_EQ(changed.stage, RunStage::other_job);
    EXPECT_EQ(changed.difference, "lr.peak was 3.0e-04 and is 0.5");
    study.temporary.write("runs/study-sweep/" + point.name + "/config.yaml", "no: spec\n");
    EXPECT_EQ(run_state(run, *point.spec).stage, RunStage::other_job);
}

TEST(Table, ShowsEveryPointWhateverBecameOfIt) {
    Study study;
    const std::vector<Point>& points = study.sweep.points;
    ASSERT_EQ(points.size(), 6u);
    leave_run(study.temporary, points[0], 3, 3.0);
    leave_run(study.temporary, points[1], 2, 3.0, 75);
    leave_run(study.temporary, points[2], 3, 3.0);
    study.folder.create();
    study.folder.write(study.folder.outcome(points[3].name),
                       to_json({65, "it, \"failed\" | so", 1, "mpirun"}));
    const std::vector<Row> rows = study.rows();
    ASSERT_EQ(rows.size(), 6u);
    EXPECT_EQ(rows[0].status, Status::done);
    EXPECT_EQ(rows[1].status, Status::interrupted);
    EXPECT_EQ(rows[2].status, Status::done);
    EXPECT_EQ(rows[3].status, Status::failed);
    EXPECT_EQ(rows[4].status, Status::impossible);
    EXPECT_EQ(rows[2].losses.text, "same bits as #0");
    EXPECT_EQ(*rows[2].theory_bubble, 1.0 / 9.0);

    const std::string csv = to_csv(study.sweep, rows);
    EXPECT_EQ(
        csv.substr(0, csv.find('\n')),
        "index,name,parallel.pp,train.micro_batch,ranks,micro_batches,status,exit_code,steps,tokens_per_s,"
        "step_ms,predicted_step_ms,bubble,predicted_bubble,theory_bubble,peak_memory_bytes,final_loss,losses,"
        "message");
    EXPECT_TRUE(contains(csv,
                         "\n2,pp-2_micro_batch-1,2,1,2,8,done,,3,12345,50,42,0.1,0.125,0.1111111111111111,,1,"
                         "same bits as #0,\n"))
        << csv;
    EXPECT_TRUE(contains(csv, ",failed,65,,,,42,,,0.2,,,,\"it, \"\"failed\"\" | so\"\n")) << csv;

    const std::string markdown = to_markdown(study.sweep, rows);
    EXPECT_TRUE(contains(markdown,
                         "| # | parallel.pp | train.micro_batch | ranks | micro-batches | status | tok/s |"))
        << markdown;
    EXPECT_FALSE(contains(markdown, "peak memory")) << "a column without a value";
    EXPECT_TRUE(contains(markdown,
                         "| 12,345 | 50.0 | 42.0 | 10.0 % | 12.5 % | 11.1 % | 1.000000 | same bits as #0 |"))
        << markdown;
    EXPECT_TRUE(contains(markdown, "\n- pp-2_micro_batch-2: failed (65): it, \"failed\" \\| so\n"))
        << markdown;
    EXPECT_TRUE(contains(markdown, "\n- pp-8_micro_batch-1: impossible: ")) << markdown;
}

TEST(Table, SaysThatLossesDiffer) {
    Study study;
    leave_run(study.temporary, study.sweep.points[0], 3, 3.0);
    leave_run(study.temporary, study.sweep.points[2], 3, 3.5);
    const std::vector<Row> rows = study.rows();
    EXPECT_EQ(rows[2].losses.agreement, Agreement::differs);
    EXPECT_TRUE(contains(to_markdown(study.sweep, rows), "DIFFERS from #0 at step 1"))
        << to_markdown(study.sweep, rows);
}

}  // namespace
}  // namespace escalier::sweep
