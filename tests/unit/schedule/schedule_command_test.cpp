#include "apps/escalier/schedule_command.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/error.h"
#include "schedule/generators.h"
#include "tests/harness/temp_folder.h"

namespace escalier::apps {
namespace {

struct Outcome {
    ExitCode code = ExitCode::ok;
    std::string out, error;
};

// As main() would: parse, run the action, turn errors into codes.
Outcome escalier(std::vector<std::string> arguments) {
    CLI::App app;
    std::function<int()> action;
    add_schedule_command(app, action);
    std::reverse(arguments.begin(), arguments.end());
    Outcome outcome;
    testing::internal::CaptureStdout();
    try {
        app.parse(arguments);
        EXPECT_EQ(action(), 0);
    } catch (const Error& error) {
        outcome.code = error.code();
        outcome.error = error.what();
    } catch (const CLI::ParseError& error) {
        outcome.code = ExitCode::usage;
        outcome.error = error.what();
    }
    outcome.out = testing::internal::GetCapturedStdout();
    return outcome;
}

std::string last_line(const std::string& text) {
    const auto before = text.rfind('\n', text.size() - 2);
    return text.substr(before == std::string::npos ? 0 : before + 1);
}

void expect_refusal(const std::vector<std::string>& arguments, ExitCode code, const std::string& part) {
    const Outcome outcome = escalier(arguments);
    EXPECT_EQ(outcome.code, code) << part;
    EXPECT_NE(outcome.error.find(part), std::string::npos) << outcome.error;
    EXPECT_EQ(outcome.out, "");
}

TEST(ScheduleCommand, PrintsAStaircaseThatEndsWithTheIdleShare) {
    const Outcome six = escalier({"schedule", "gpipe", "--stages", "4", "--micro-batches", "6"});
    EXPECT_EQ(last_line(six.out), "idle 33.3 %\n");
    EXPECT_NE(six.out.find("\nrank 3  .........F0 F1 F2 F3 F4 F5 B0    B1 "), std::string::npos) << six.out;
    EXPECT_NE(six.out.find("messages 36"), std::string::npos);
    EXPECT_NE(six.out.find("alive per rank 6 6 6 6"), std::string::npos);
    const Outcome many = escalier({"schedule", "gpipe", "--pp", "4", "--micro-batches", "24"});
    EXPECT_EQ(last_line(many.out), "idle 11.1 %\n");
}

TEST(ScheduleCommand, TakesCostsAndBackwardOrder) {
    const Outcome free_backward = escalier(
        {"schedule", "1f1b", "--stages", "2", "--micro-batches", "1", "--cost", "F=2,I=1,W=0,comm=1"});
    EXPECT_NE(free_backward.out.find("makespan 8"), std::string::npos) << free_backward.out;
    const Outcome lifo = escalier({"schedule", "gpipe", "--stages", "1", "--micro-batches", "2", "--backward",
                                   "lifo", "--format", "csv"});
    EXPECT_EQ(lifo.out, "0F0,0F1,0B1,0B0\n");
}

TEST(ScheduleCommand, WritesCsvAndReadsItBack) {
    const test::TempFolder folder;
    const std::string file = folder / "schedule.csv";
    const Outcome written = escalier(
        {"schedule", "1f1b", "--stages", "2", "--micro-batches", "2", "--format", "csv", "--out", file});
    EXPECT_EQ(written.code, ExitCode::ok);
    EXPECT_EQ(written.out, "");
    std::stringstream content;
    content << std::ifstream(file).rdbuf();
    EXPECT_EQ(content.str(), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
    EXPECT_EQ(last_line(escalier({"schedule", "--from", file}).out), "idle 33.3 %\n");
    expect_refusal({"schedule", "1f1b", "--from", file}, ExitCode::usage, "leave one out");
    expect_refusal({"schedule", "--from", file, "--pp", "2"}, ExitCode::usage,
                   "--stages follows from the cells");
    std::ofstream(file) << "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n";
    expect_refusal({"schedule", "--from", file}, ExitCode::usage, "rank 0 waits in 0B0");
    std::filesystem::remove(file);
    expect_refusal({"schedule", "--from", file}, ExitCode::input_missing, "cannot open");
    expect_refusal({"schedule", "--from", "/dev/zero"}, ExitCode::input_missing, "a plain file is needed");
}

TEST(ScheduleCommand, TakesCostsPerStage) {
    const Outcome uneven = escalier(
        {"schedule", "gpipe", "--stages", "2", "--micro-batches", "1", "--cost", "F=1:3,I=2,W=0:5,comm=0.5"});
    EXPECT_NE(uneven.out.find("makespan 14,"), std::string::npos) << uneven.out;
    const std::vector<std::string> start = {"schedule",        "zbv", "--stages", "2",
                                            "--micro-batches", "2",   "--cost"};
    const auto with = [&](const std::string& cost) {
        auto arguments = start;
        arguments.push_back(cost);
        return arguments;
    };
    EXPECT_EQ(escalier(with("F=1:1:1:1")).code, ExitCode::ok);
    expect_refusal(with("F=1:1"), ExitCode::usage, "F= has 2 values, the schedule has 4 stages");
    expect_refusal(with("F=1::1"), ExitCode::usage, "`F=1::1` needs a duration");
    expect_refusal(with("F=1,F=2"), ExitCode::usage, "`F=2` gives F= a second time");
    expect_refusal(with("comm=1:2"), ExitCode::usage, "needs one duration");
    expect_refusal(with("pair=0.4"), ExitCode::usage, "a number from 0.5 to 1");
}

TEST(ScheduleCommand, OverlappedPairsMayTakeLess) {
    const auto makespan = [](const std::string& cost) {
        const Outcome outcome =
            escalier({"schedule", "dualpipe", "--stages", "2", "--micro-batches", "8", "--cost", cost});
        const auto at = outcome.out.find("makespan ");
        return at == std::string::npos ? 0 : std::stod(outcome.out.substr(at + 9));
    };
    EXPECT_LT(makespan("pair=0.8"), makespan("pair=1"));
    EXPECT_EQ(makespan("pair=1"), makespan("F=1"));
}

TEST(ScheduleCommand, UsesTheKindsChunksUnlessTold) {
    const Outcome own = escalier({"schedule", "interleaved", "--stages", "2", "--micro-batches", "4"});
    EXPECT_NE(own.out.find("2 chunks per rank"), std::string::npos) << own.out;
    const Outcome three = escalier({"schedule", "interleaved", "--stages", "2", "--micro-batches", "4",
                                    "--chunks", "3", "--group", "4"});
    EXPECT_NE(three.out.find("3 chunks per rank"), std::string::npos) << three.out;
    EXPECT_NE(three.out.find("rank 0  0F0 0F1 0F2 0F3 2F0 "), std::string::npos) << three.out;
}

TEST(ScheduleCommand, ListsTheKindsWhenAskedForNothing) {
    const Outcome list = escalier({"schedule"});
    EXPECT_EQ(list.code, ExitCode::ok);
    for (const auto& kind : schedule::kinds()) {
        EXPECT_NE(list.out.find("\n  " + std::string(kind.name) + " "), std::string::npos) << kind.name;
        EXPECT_NE(list.out.find("(" + std::string(kind.constraint) + ")\n"), std::string::npos) << kind.name;
    }
}

TEST(ScheduleCommand, WritesPicturesAndJson) {
    const std::vector<std::string> start = {"schedule",        "1f1b", "--stages", "2",
                                            "--micro-batches", "2",    "--format"};
    auto svg = start, json = start;
    svg.push_back("svg");
    json.push_back("json");
    EXPECT_EQ(escalier(svg).out.rfind("<svg xmlns=", 0), 0u);
    EXPECT_NE(escalier(svg).out.find(">F=1,I=1,W=1,comm=0, messages 4; proved: completes"),
              std::string::npos);
    EXPECT_NE(escalier(json).out.find("\"makespan\": 9.0"), std::string::npos) << escalier(json).out;
}

TEST(ScheduleCommand, WritesPairsAndCommunicationWhenAsked) {
    const auto csv = [](std::vector<std::string> more) {
        std::vector<std::string> arguments = {"schedule",        "dualpipev", "--stages", "2",
                                              "--micro-batches", "4",         "--format", "csv"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return escalier(arguments).out;
    };
    EXPECT_EQ(csv({}).find('('), std::string::npos);
    EXPECT_NE(csv({"--overlap"}).find("(0F3;3B1)OVERLAP_F_B"), std::string::npos) << csv({"--overlap"});
    EXPECT_EQ(csv({"--overlap"}).find("SEND"), std::string::npos);
    EXPECT_EQ(csv({"--comm"}).rfind("0F0,0SEND_F0,", 0), 0u) << csv({"--comm"});
}

TEST(ScheduleCommand, AnOptionWithoutUseIsRefused) {
    const auto refused = [](const std::string& kind, std::vector<std::string> more, const std::string& part) {
        std::vector<std::string> arguments = {"schedule", kind, "--stages", "4", "--micro-batches", "8"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        expect_refusal(arguments, ExitCode::usage, part);
    };
    refused("gpipe", {"--group", "4"}, "it has no group size, found group 4");
    refused("1f1b", {"--backward", "lifo"}, "no backward order lifo");
    refused("1f1b", {"--memory", "4"}, "--memory: `1f1b` is not built for a memory limit");
    refused("1f1b", {"--overlap"}, "--overlap is about CSV cells");
    refused("1f1b", {"--comm", "--format", "svg"}, "--comm is about CSV cells");
    refused("1f1b", {"--overlap", "--format", "csv"}, "`1f1b` has no overlapped pairs");
    refused("1f1b", {"--cost", "F=2", "--format", "csv"}, "--cost changes nothing in the CSV of `1f1b`");
    refused("1f1b", {"--cost", "pair=0.9"}, "pair= is about overlapped pairs, `1f1b` has none");
    refused("1f1b", {"--compare", "zbv"}, "more than one of");
}

TEST(ScheduleCommand, RefusesWhatItDoesNotKnow) {
    const std::vector<std::string> size = {"--stages", "4", "--micro-batches", "6"};
    const auto with = [&](std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), "schedule");
        arguments.insert(arguments.end(), size.begin(), size.end());
        return arguments;
    };
    expect_refusal(with({"1f1bb"}), ExitCode::usage, "did you mean `1f1b`");
    expect_refusal({"schedule", "gpip"}, ExitCode::usage, "did you mean `gpipe`");
    expect_refusal(with({}), ExitCode::usage, "which schedule?");
    expect_refusal({"schedule", "gpipe", "--stages", "4"}, ExitCode::usage, "--micro-batches is missing");
    expect_refusal({"schedule", "gpipe", "--micro-batches", "4"}, ExitCode::usage, "--stages is missing");
    expect_refusal(with({"gpipe", "--chunks", "2"}), ExitCode::usage, "found chunks 2");
    expect_refusal(with({"gpipe", "--backward", "up"}), ExitCode::usage, "neither fifo nor lifo");
    expect_refusal(with({"gpipe", "--format", "png"}), ExitCode::usage, "none of text, csv, svg, json");
    expect_refusal(with({"gpipe", "--out", "/nowhere/at/all"}), ExitCode::write_failed, "--out /nowhere");
    for (const char* cost : {"F=1,X=2", "F", "F=", "F=-1", "F=1x", "F=nan", "F=0,I=0,W=0", "F=1e99"})
        expect_refusal(with({"gpipe", "--cost", cost}), ExitCode::usage, "--cost");
}

TEST(ScheduleCommand, SaysWhatNumbersItTakes) {
    const auto refused = [](const std::string& stages, const std::string& part) {
        expect_refusal({"schedule", "gpipe", "--stages", stages, "--micro-batches", "6"}, ExitCode::usage,
                       "--stages: found " + stages + ", wanted a whole number from 1 to 4194304" + part);
    };
    refused("0", "");
    refused("-1", "");
    refused("4.5", "");
    refused("0x4", "");
    refused("4194305", "");
    refused("010", " (a leading zero would mean octal; write 10)");
    refused("99999999999999999999", " (the number does not fit 64 bits)");
}

}  // namespace
}  // namespace escalier::apps
