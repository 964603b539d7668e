#include "train/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"

namespace escalier::train {
namespace {

StepReport report() {
    StepReport r;
    r.step = 7;
    r.steps = 200;
    r.loss = 2.3456789012345678;
    r.grad_norm = 0.5;
    r.lr = 3e-4;
    r.seconds = 0.5;
    r.consumed_samples = 56;
    r.step_tokens = 1024;
    r.consumed_tokens = 7168;
    r.model_flops = 1e9;
    r.ranks = {{0.3, 0.05, 0.1, 0.02, 0.02, 0.01, 0.5}, {0.4, 0.05, 0.0, 0.02, 0.02, 0.01, 0.5}};
    return r;
}

TEST(StepLine, SaysStepLossNormRateAndBubble) {
    EXPECT_EQ(
        step_line(report()),
        "step   7/200 | loss 2.345679 | norm 0.5000 | lr 3.00e-04 | 500.0 ms | 2,048 tok/s | bubble 10.0 %");
}

TEST(MetricsFile, NumbersComeBackToTheBitAndNonFiniteOnesAreNull) {
    const std::string path = ::testing::TempDir() + "metrics_test.jsonl";
    {
        MetricsFile file(std::ofstream(path, std::ios::trunc), path);
        file.start("2x1x1", 42, 0.25);
        file.step(report());
        StepReport broken = report();
        broken.loss = std::nan("");
        broken.grad_norm = INFINITY;
        file.step(broken);
        file.eval(7, 2.5, 100, 0.1);
        file.end(1, "stopped");
    }
    std::ifstream in(path);
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
    ASSERT_EQ(lines.size(), 5u);
    EXPECT_EQ(lines[0]["event"], "start");
    EXPECT_EQ(lines[1]["loss"].get<double>(), report().loss);
    EXPECT_DOUBLE_EQ(lines[1]["tokens_per_s"].get<double>() * lines[1]["step_ms"].get<double>() / 1e3, 1024);
    EXPECT_EQ(lines[1]["ranks"].size(), 2u);
    EXPECT_TRUE(lines[2]["loss"].is_null());
    EXPECT_TRUE(lines[2]["grad_norm"].is_null());
    EXPECT_EQ(lines[3]["loss"], 2.5);
    EXPECT_EQ(lines[4]["exit_code"], 1);
}

TEST(MetricsFile, AFullDiskIsAWriteError) {
    MetricsFile file(std::ofstream("/dev/full"), "/dev/full");
    try {
        file.step(report());
        FAIL() << "nothing was noticed";
    } catch (const IoError& error) {
        EXPECT_EQ(error.code(), ExitCode::write_failed);
        EXPECT_NE(std::string(error.what()).find("/dev/full"), std::string::npos);
    }
}

TEST(ClockText, TellsMinutesAndHours) {
    EXPECT_EQ(clock_text(75), "1:15");
    EXPECT_EQ(clock_text(4000), "1:06:40");
}

TEST(SplitTable, HasALinePerRank) {
    const std::string table = split_table(report().ranks);
    EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 2);
    EXPECT_NE(table.find("60.0 %"), std::string::npos) << table;
}

}  // namespace
}  // namespace escalier::train
