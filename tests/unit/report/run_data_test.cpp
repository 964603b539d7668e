#include "report/run_data.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "report/chart.h"
#include "report/markup.h"
#include "report/page.h"
#include "report/watch_text.h"
#include "tests/harness/temp_folder.h"

namespace escalier::report {
namespace {

std::string step_line(int step, double loss, double time) {
    return R"({"event":"step","step":)" + std::to_string(step) + R"(,"time":)" + std::to_string(time) +
           R"(,"loss":)" + std::to_string(loss) +
           R"(,"lr":0.001,"grad_norm":1.5,"step_ms":100,"tokens_per_s":1000,"mfu":null,"bubble":0.25,)"
           R"("consumed_tokens":100,"skipped":0,"ranks":[{"step_ms":100,"compute_ms":60,"bubble_ms":25}]})";
}

std::string start_line(int first, const char* from) {
    return R"({"event":"start","time":10,"grid":"1x1x1","parameters":7,"first_step":)" +
           std::to_string(first) + R"(,"steps":20,"resumed_from":)" + from + "}";
}

TEST(RunData, AResumeTakesBackWhatCameAfterItsFirstStep) {
    RunData data;
    data.add_line(start_line(1, "null"));
    for (int step = 1; step <= 8; ++step) data.add_line(step_line(step, step, 10 + step));
    data.add_line(R"({"event":"checkpoint","step":5,"time":15,"bytes":7,"save_ms":1,"stall_ms":0})");
    data.add_line(R"({"event":"checkpoint","step":8,"time":18,"bytes":7,"save_ms":1,"stall_ms":0})");
    data.add_line(R"({"event":"eval","step":4,"loss":2.5})");
    data.add_line(R"({"event":"end","exit_code":75,"reason":"stopped","time":19})");
    EXPECT_TRUE(data.end);
    data.add_line(start_line(6, "\"runs/x/step_00000005\""));
    EXPECT_FALSE(data.end);
    EXPECT_EQ(data.steps.size(), 5u);
    EXPECT_EQ(data.saves.size(), 1u);
    data.add_line(step_line(6, 60, 30));
    data.add_line(step_line(7, 70, 31));
    EXPECT_EQ(data.steps.rbegin()->first, 7);
    EXPECT_EQ(data.steps.at(6).loss, 60);
    EXPECT_EQ(data.validation.at(4), 2.5);
    EXPECT_EQ(data.sessions.back().resumed_from, "runs/x/step_00000005");
    EXPECT_EQ(data.split_steps, 1);  // the session's first step does not count
    EXPECT_DOUBLE_EQ(data.splits.at(0).compute, 60);
    EXPECT_EQ(data.planned_steps(), 20);
    EXPECT_DOUBLE_EQ(seconds_left(data), 13);  // a second a step
}

TEST(RunData, AValidationThatWasNotFiniteIsNoBestOne) {
    RunFolder run;
    run.data.add_line(start_line(1, "null"));
    run.data.add_line(R"({"event":"eval","step":2,"loss":null})");
    EXPECT_EQ(html_page(run).find("best validation loss"), std::string::npos);
    run.data.add_line(R"({"event":"eval","step":4,"loss":2.5})");
    run.data.add_line(R"({"event":"eval","step":6,"loss":3.5})");
    EXPECT_NE(html_page(run).find("best validation loss, step 4"), std::string::npos);
}

TEST(RunData, ForeignAndBrokenLinesAreCountedAndPassedOver) {
    RunData data;
    for (const char* line : {"{", "[]", "3", "\"x\"", "{\"event\":", "\x80\xff"}) data.add_line(line);
    EXPECT_EQ(data.lines_passed_over, 6);
    for (const char* line :
         {R"({"event":7})", R"({"event":"step","step":"x","loss":[],"ranks":[3,null]})",
          R"({"event":"step","step":1e300,"ranks":{}})", R"({"event":"start","first_step":-9,"steps":{}})",
          R"({"event":"end","exit_code":"q"})", R"({"event":"of a later version"})"})
        data.add_line(line);
    EXPECT_EQ(data.lines_passed_over, 6);
    EXPECT_TRUE(data.end);
    EXPECT_FALSE(watch_line(data).empty());
    EXPECT_FALSE(end_text(data, RunState::ended).empty());
}

TEST(RunData, WhatIsNestedBeyondReasonIsLeftOut) {
    RunData data;
    const std::string deep = std::string(1 << 20, '[') + std::string(1 << 20, ']');
    data.add_line(R"({"event":"start","first_step":3,"memory":)" + deep + "}");
    EXPECT_EQ(data.lines_passed_over, 0);
    EXPECT_EQ(data.sessions.at(0).first_step, 3);
    EXPECT_LT(data.start.dump().size(), 100u);
}

class Folder : public ::testing::Test {
 protected:
    void append(const std::string& name, const std::string& text) const {
        std::ofstream(path_ + "/" + name, std::ios::app) << text;
    }

 private:
    const test::TempFolder folder_;

 protected:
    const std::string path_ = folder_.path();
};

TEST_F(Folder, AReaderFollowsWholeLinesOfAGrowingFile) {
    MetricsReader reader(path_ + "/metrics.jsonl");
    RunData data;
    EXPECT_THROW(reader.read(data), IoError);
    append("metrics.jsonl", start_line(1, "null") + "\n" + step_line(1, 1, 1));
    EXPECT_EQ(reader.read(data), 1);
    EXPECT_TRUE(data.steps.empty());
    append("metrics.jsonl", "\n" + step_line(2, 2, 2) + "\n");
    EXPECT_EQ(reader.read(data), 2);
    EXPECT_EQ(reader.read(data), 0);
    EXPECT_EQ(data.steps.size(), 2u);
}

TEST_F(Folder, AnOverlongLineIsPassedOver) {
    append("metrics.jsonl", std::string(40 << 20, 'x') + "\n" + start_line(1, "null") + "\n");
    MetricsReader reader(path_ + "/metrics.jsonl");
    RunData data;
    EXPECT_EQ(reader.read(data), 1);
    EXPECT_EQ(data.lines_passed_over, 1);
    EXPECT_EQ(data.sessions.size(), 1u);
}

TEST_F(Folder, ARunWithoutEndIsAliveAsLongAsItsLockIsHeld) {
    RunData data;
    data.add_line(start_line(1, "null"));
    EXPECT_EQ(run_state(path_, data), RunState::dead);
    const int lock = open((path_ + "/.lock").c_str(), O_CREAT | O_RDWR, 0644);
    ASSERT_EQ(flock(lock, LOCK_EX), 0);
    EXPECT_EQ(run_state(path_, data), RunState::running);
    close(lock);
    EXPECT_EQ(run_state(path_, data), RunState::dead);
    append("metrics.jsonl", start_line(1, "null") + "\n");
    MetricsReader reader(path_ + "/metrics.jsonl");
    EXPECT_TRUE(look_at_run(path_, reader, data).news);
    const RunLook look = look_at_run(path_, reader, data);
    EXPECT_EQ(look.state, RunState::dead);
    EXPECT_FALSE(look.news);
    data.add_line(R"({"event":"end","exit_code":0,"reason":"all steps done"})");
    EXPECT_EQ(run_state(path_, data), RunState::ended);
}

TEST_F(Folder, APageEscapesAllTextOfTheRun) {
    const std::string evil = "</pre><script>alert(1)</script>\"'&";
    nlohmann::json start = nlohmann::json::parse(start_line(1, "null"));
    start["grid"] = start["resumed_from"] = evil;
    start["memory"] = {{{"arena_bytes", 5}, {"arenas", {{evil, 5}}}}};
    append("metrics.jsonl",
           start.dump() + "\n" + step_line(1, 2, 1) + "\n" + step_line(2, 2, 2) + "\n" +
               nlohmann::json({{"event", "warning"}, {"step", 1}, {"text", evil}}).dump() + "\n" +
               nlohmann::json({{"event", "end"}, {"exit_code", 1}, {"reason", evil}}).dump() + "\n");
    append("config.yaml", "run: {name: \"" + evil + "\"}\n");
    append("run.json", nlohmann::json({{"mpi", evil},
                                       {"schedule", {{"kind", evil}}},
                                       {"ranks", {{{"rank", evil}, {"host", evil}, {"stages", {evil}}}}}})
                           .dump());
    append("pipeline.svg", "<svg>" + evil + "</svg>");
    const std::string page = html_page(read_run_folder(path_));
    EXPECT_EQ(page.find("<script"), std::string::npos);
    EXPECT_EQ(page.find("alert(1)</"), std::string::npos);
    EXPECT_GE(page.size(), 1000u);
}

TEST_F(Folder, APageShowsMemoryByArenaAndRank) {
    nlohmann::json start = nlohmann::json::parse(start_line(1, "null"));
    start["memory"] = {
        {{"arena_bytes", 3 << 20}, {"arenas", {{"parameters", 1 << 20}, {"optimizer", 2 << 20}}}},
        {{"arena_bytes", 5 << 20}, {"arenas", {{"parameters", 1 << 20}, {"activations", 4 << 20}}}}};
    append("metrics.jsonl",
           start.dump() + "\n" +
               R"({"event":"end","exit_code":0,"reason":"done","peak_resident_bytes":[73400320]})" + "\n");
    const std::string page = html_page(read_run_folder(path_));
    const std::size_t at = page.find("<h2>Memory</h2>");
    ASSERT_NE(at, std::string::npos);
    const std::string section = page.substr(at, page.find("<h2>", at + 1) - at);
    // An arena that a rank has not is none of its bytes; a peak that is not told is not made up.
    for (const char* row :
         {"<th>rank</th><th>optimizer</th><th>parameters</th><th>activations</th>",
          "<tr><td>0</td><td>2.0 MiB</td><td>1.0 MiB</td><td>0 B</td><td>3.0 MiB</td><td>70.0 MiB</td></tr>",
          "<tr><td>1</td><td>0 B</td><td>1.0 MiB</td><td>4.0 MiB</td><td>5.0 MiB</td><td>–</td></tr>"})
        EXPECT_NE(section.find(row), std::string::npos) << section;
    EXPECT_NE(section.find("width:80.000%"), std::string::npos) << section;  // 4 of 5 MiB
}

TEST_F(Folder, APageIsMadeOfWhateverIsThere) {
    append("metrics.jsonl", start_line(1, "null") + "\n");
    append("run.json", "{");
    const std::string page = html_page(read_run_folder(path_ + "/"));
    EXPECT_NE(page.find("<h1>" + std::filesystem::path(path_).filename().string() + "</h1>"),
              std::string::npos);
    EXPECT_NE(page.find("no data"), std::string::npos);
}

TEST_F(Folder, WhatIsNoRunIsRefusedByName) {
    const auto code_of = [](const std::string& path) {
        try {
            read_run_folder(path);
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
            return error.code();
        }
        return ExitCode::ok;
    };
    EXPECT_EQ(code_of(path_ + "/none"), ExitCode::input_missing);
    EXPECT_EQ(code_of(path_), ExitCode::input_missing);
    append("metrics.jsonl", "something else\n");
    EXPECT_EQ(code_of(path_), ExitCode::data_corrupt);
}

TEST(Markup, Base64IsTheStandardsOwn) {  // RFC 4648, section 10
    EXPECT_EQ(base64(""), "");
    EXPECT_EQ(base64("f"), "Zg==");
    EXPECT_EQ(base64("fo"), "Zm8=");
    EXPECT_EQ(base64("foo"), "Zm9v");
    EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
    EXPECT_EQ(base64("\xff\xef"), "/+8=");
}

TEST(ChartTest, AMillionPointsKeepTheirPeaksInFewBytes) {
    Chart chart;
    chart.y_name = "loss";
    Series series{"training", "c1", {}, false};
    for (int i = 0; i < 1000000; ++i) series.points.emplace_back(i, i == 777777 ? 100.0 : 1.0 + i % 7);
    chart.series.push_back(series);
    const std::string svg = to_svg(chart);
    EXPECT_LT(svg.size(), 60000u);
    // The peak is the highest place of the curve: 5 % below the top of the frame.
    EXPECT_NE(svg.find(" 36.9"), std::string::npos) << svg.substr(0, 2000);
}

TEST(ChartTest, GapsAndLonelyPointsAreDrawnAndNothingIsNotANumber) {
    const double nan = std::nan("");
    for (const std::vector<std::pair<double, double>>& points : {std::vector<std::pair<double, double>>{},
                                                                 {{1, nan}},
                                                                 {{1, 2}},
                                                                 {{1, 2}, {2, nan}, {3, 2}},
                                                                 {{1, 0}, {2, 0}},
                                                                 {{1, 1e-300}, {2, 1e300}},
                                                                 {{1, -5}, {2, INFINITY}, {3, 5}}}) {
        Chart chart;
        chart.series.push_back({"a", "c1", points, true});
        const std::string svg = to_svg(chart);
        EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
        EXPECT_EQ(svg.find("inf"), std::string::npos) << svg;
        EXPECT_LT(svg.size(), 20000u);
    }
}

TEST(ChartTest, ValuesThatLieCloseTogetherHaveLabelsOfTheirOwn) {
    const auto chart_of = [](double low, double high) {
        Chart chart;
        chart.series.push_back({"a", "c1", {{1, low}, {2, high}}, false});
        return to_svg(chart);
    };
    const std::string ulp = chart_of(2.5, std::nextafter(2.5, 3));
    EXPECT_LT(ulp.size(), 5000u);
    EXPECT_NE(ulp.find(">2.5<"), std::string::npos) << ulp;
    const std::string close = chart_of(2.000001, 2.000002);
    for (const char* label : {">2.000001<", ">2.0000014<", ">2.000002<"})
        EXPECT_NE(close.find(label), std::string::npos) << close;
    const std::string small = chart_of(0.0010001, 0.0010003);
    for (const char* label : {">0.0010001<", ">0.00100015<", ">0.0010003<"})
        EXPECT_NE(small.find(label), std::string::npos) << small;
}

TEST(ChartTest, ShortNumbersHaveThreeDigits) {
    for (const auto& [value, text] : std::vector<std::pair<double, std::string>>{
             {999.4, "999"}, {999.7, "1,000"}, {-999.7, "-1,000"}, {1234.5, "1,230"}, {0.00123, "0.00123"}})
        EXPECT_EQ(short_number(value), text);
}

TEST_F(Folder, NumbersBeyondAllReasonAreNotShownAsOthers) {
    nlohmann::json start = nlohmann::json::parse(start_line(1, "null"));
    start["time"] = start["parameters"] = 1e300;
    append("metrics.jsonl", start.dump() + "\n" + step_line(1, 2, -1e300) + "\n" + step_line(2, 2, 1e300) +
                                "\n" + R"({"event":"end","exit_code":0,"reason":"done","time":-1e300})" +
                                "\n");
    const RunFolder run = read_run_folder(path_);
    EXPECT_NE(html_page(run).find("started –"), std::string::npos);
    EXPECT_NE(watch_page("r", run.data, RunState::running, 12, 300)[0].find("? left"), std::string::npos);
}

TEST(WatchText, CountsThatAreNoneStandForNothing) {
    RunData data;
    data.add_line(start_line(1, "null"));
    data.add_line(R"({"event":"step","step":-1})");
    EXPECT_EQ(watch_page("r", data, RunState::running, 12, 300)[0].find(
                  "r | running | [........................] step 0/20 (0 %)"),
              0u);
    for (const char* code : {"4294967296", "-1", "null", "\"0\""}) {
        data.add_line(R"({"event":"end","reason":"?","exit_code":)" + std::string(code) + "}");
        EXPECT_EQ(end_text(data, RunState::ended).find("failed (1)"), 0u) << code;
    }
}

TEST(WatchText, LinesFitTheTerminalAndHoldNoControlCharacters) {
    RunData data;
    data.add_line(start_line(1, "null"));
    data.add_line(step_line(1, 1, 10));
    data.add_line(R"({"event":"warning","step":1,"text":"a\u001b[2Jb\nc"})");
    for (const std::string& line : watch_page("run\033[1m", data, RunState::running, 12, 60)) {
        EXPECT_LE(line.size(), 60u);
        for (const char c : line) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << line;
    }
    EXPECT_EQ(watch_page("r", data, RunState::running, 12, 300)[0].find(
                  "r | running | [#.......................] step 1/20 (5 %) | ? left"),
              0u);
}

}  // namespace
}  // namespace escalier::report
