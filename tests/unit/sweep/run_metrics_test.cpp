#include "sweep/run_metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/temp_folder.h"

namespace escalier::sweep {
namespace {

using test::TempFolder;

std::string step(int number, double ms, const std::string& loss = "2.5") {
    return "{\"event\":\"step\",\"step\":" + std::to_string(number) + ",\"loss\":" + loss +
           ",\"grad_norm\":1.0,\"step_ms\":" + std::to_string(ms) +
           ",\"tokens_per_s\":" + std::to_string(1e6 / ms) + ",\"bubble\":0.25}\n";
}
std::string start(int first) {
    return "{\"event\":\"start\",\"first_step\":" + std::to_string(first) + ",\"predicted_bubble\":0.2}\n";
}

TEST(RunMetrics, LeaveTheFirstStepOfEachProcessOutOfMedians) {
    const TempFolder folder;
    folder.write("metrics.jsonl", start(1) + step(1, 900) + step(2, 10) + step(3, 30) + start(4) +
                                      step(4, 800) + step(5, 20) + step(6, 40));
    const RunMetrics run = read_run_metrics(folder.path());
    EXPECT_EQ(run.steps.size(), 6u);
    EXPECT_EQ(run.step_ms, 25.0);
    EXPECT_EQ(run.step_bubble, 0.25);
    EXPECT_NEAR(*run.tokens_per_s, (1e6 / 20 + 1e6 / 30) / 2, 1e-6);
}

TEST(RunMetrics, FollowARunThatWentBack) {
    const TempFolder folder;
    folder.write("metrics.jsonl", start(1) + step(1, 1) + step(2, 1) + step(3, 1, "9.0") +
                                      "{\"event\":\"end\",\"exit_code\":75,\"reason\":\"stopped\"}\n" +
                                      start(2) + step(2, 1, "3.0"));
    const RunMetrics run = read_run_metrics(folder.path());
    ASSERT_EQ(run.steps.size(), 2u);
    EXPECT_EQ(run.steps.at(2).loss, 3.0);
    EXPECT_FALSE(run.exit_code);
    EXPECT_EQ(run.end_reason, "");
}

TEST(RunMetrics, TakeWhatIsThere) {
    const TempFolder folder;
    EXPECT_TRUE(read_run_metrics(folder.path()).steps.empty());
    folder.write("metrics.jsonl",
                 start(1) + "nonsense\n[1]\n{\"event\":7}\n" + step(1, 5, "null") +
                     "{\"event\":\"bubble\",\"theory\":0.1,\"simulated\":0.2,\"measured\":0.3}\n"
                     "{\"event\":\"end\",\"exit_code\":0,\"reason\":\"all steps done\","
                     "\"peak_resident_bytes\":[100,300,200]}\n{\"event\":\"st");
    const RunMetrics run = read_run_metrics(folder.path());
    ASSERT_EQ(run.steps.size(), 1u);
    EXPECT_TRUE(std::isnan(run.steps.at(1).loss));
    ASSERT_TRUE(run.bubble);
    EXPECT_EQ(run.bubble->measured, 0.3);
    EXPECT_EQ(run.exit_code, 0);
    EXPECT_EQ(run.peak_bytes, 300);
    EXPECT_EQ(run.predicted_bubble, 0.2);
    EXPECT_FALSE(run.step_ms);  // one step, the first
}

}  // namespace
}  // namespace escalier::sweep
