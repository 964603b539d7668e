#include "train/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/harness/temp_folder.h"
#include "train/peak_flops.h"

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
    r.stages = {{0, 0, 0, 0.001, 0.002, 0, 0}, {1, 0, 1, 0.0015, 0, 0.001, 0.0005}};
    return r;
}

pipeline::Bubble bubble() {
    pipeline::Bubble b;
    b.theory = 0.1;
    b.simulated = 0.12;
    b.replayed = 0.125;
    b.measured = 0.15;
    b.replayed_makespan = 0.098;
    b.measured_makespan = 0.1;
    b.steps = 20;
    return b;
}

TEST(StepLine, SaysStepLossNormRateAndBubble) {
    EXPECT_EQ(
        step_line(report()),
        "step   7/200 | loss 2.345679 | norm 0.5000 | lr 3.00e-04 | 500.0 ms | 2,048 tok/s | bubble 10.0 %");
}

TEST(StepLine, SaysTheShareOfThePeakWhereThatIsKnown) {
    StepReport r = report();
    EXPECT_TRUE(std::isnan(mfu(r)));
    r.peak_flops = 4e9;  // 1e9 FLOPs in half a second
    EXPECT_DOUBLE_EQ(mfu(r), 0.5);
    EXPECT_NE(step_line(r).find("bubble 10.0 % | mfu 50.0 %"), std::string::npos) << step_line(r);
}

TEST(PeakFlops, IsTheUsersFigureOrThatOfAKnownGpu) {
    config::JobSpec spec;
    const std::string h200 = "GPU 0, NVIDIA H200, GPU-1, 139.8 GiB";
    spec.train.dtype = "bf16";
    EXPECT_DOUBLE_EQ(peak_flops(spec, h200), 989.4e12);
    EXPECT_DOUBLE_EQ(peak_flops(spec, "GPU 0, NVIDIA H100 PCIe, GPU-1, 79.1 GiB"), 756e12);
    EXPECT_DOUBLE_EQ(peak_flops(spec, "GPU 0, NVIDIA H100 NVL, GPU-1, 93.1 GiB"), 835e12);
    EXPECT_DOUBLE_EQ(peak_flops(spec, "GPU 0, NVIDIA GB200, GPU-1, 184 GiB"), 2500e12);
    EXPECT_DOUBLE_EQ(peak_flops(spec, "GPU 0, NVIDIA A100-SXM4-80GB, GPU-1, 79.2 GiB"), 312e12);
    for (const char* unknown : {"GPU 0, a new one", "GPU 0, NVIDIA RTX A1000, GPU-1, 8 GiB"})
        EXPECT_EQ(peak_flops(spec, unknown), 0) << unknown;
    spec.log.peak_tflops = 123;
    EXPECT_DOUBLE_EQ(peak_flops(spec, h200), 123e12);
    spec.log.peak_tflops.reset();
    spec.train.dtype = "fp32";
    EXPECT_EQ(peak_flops(spec, h200), 0);
}

TEST(MetricsFile, NumbersComeBackToTheBitAndNonFiniteOnesAreNull) {
    const test::TempFolder folder;
    const std::string path = folder / "metrics.jsonl";
    {
        MetricsFile file(std::ofstream(path, std::ios::trunc), path);
        file.start(
            {"2x1x1", 42, 0.25, 1, 9, "", {{{"prepared weights", 512, false}, {"host", 256, true}}, {}}});
        file.step(report());
        StepReport broken = report();
        broken.loss = std::nan("");
        broken.grad_norm = INFINITY;
        file.step(broken);
        file.eval(7, 2.5, 100, 0.1);
        file.bubble(bubble());
        file.end(1, "stopped", {1024, 2048});
    }
    std::ifstream in(path);
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
    ASSERT_EQ(lines.size(), 6u);
    EXPECT_EQ(lines[0]["event"], "start");
    EXPECT_EQ(lines[0]["steps"], 9);
    EXPECT_EQ(lines[0]["memory"].size(), 2u);
    EXPECT_EQ(lines[0]["memory"][0]["arena_bytes"], 768);
    EXPECT_EQ(lines[0]["memory"][0]["arenas"]["prepared_weights"], 512);
    EXPECT_EQ(lines[1]["loss"].get<double>(), report().loss);
    EXPECT_TRUE(lines[1]["mfu"].is_null());
    EXPECT_DOUBLE_EQ(lines[1]["tokens_per_s"].get<double>() * lines[1]["step_ms"].get<double>() / 1e3, 1024);
    EXPECT_EQ(lines[1]["ranks"].size(), 2u);
    EXPECT_TRUE(lines[2]["loss"].is_null());
    EXPECT_TRUE(lines[2]["grad_norm"].is_null());
    EXPECT_EQ(lines[3]["loss"], 2.5);
    EXPECT_EQ(lines[1]["stages"][1]["pp_rank"], 1);
    EXPECT_DOUBLE_EQ(lines[1]["stages"][0]["backward_ms"].get<double>(), 2);
    EXPECT_DOUBLE_EQ(lines[1]["stages"][1]["weight_gradient_ms"].get<double>(), 0.5);
    EXPECT_EQ(lines[4]["event"], "bubble");
    EXPECT_DOUBLE_EQ(lines[4]["theory"].get<double>() + lines[4]["imbalance"].get<double>() +
                         lines[4]["stragglers"].get<double>() + lines[4]["communication"].get<double>(),
                     lines[4]["measured"].get<double>());
    EXPECT_EQ(lines[5]["exit_code"], 1);
    EXPECT_EQ(lines[5]["peak_resident_bytes"][1], 2048);
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

TEST(BubbleTable, PutsThreeFiguresAndTheirCausesSideBySide) {
    const std::string table = bubble_table(bubble());
    for (const char* part : {"theory   10.0 %", "simulated   12.0 %", "+2.0 imbalance", "measured    15.0 %",
                             "+0.5 stragglers", "+2.5 communication", "last 20 steps", "98.0 ms", "(-2.0 %)"})
        EXPECT_NE(table.find(part), std::string::npos) << part << " in\n" << table;
}

}  // namespace
}  // namespace escalier::train
