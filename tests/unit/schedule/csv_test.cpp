#include "schedule/csv.h"

#include <gtest/gtest.h>

#include <sstream>

#include "core/error.h"
#include "every_kind.h"
#include "golden.h"

namespace escalier::schedule {
namespace {

Schedule parse(const std::string& text) {
    std::istringstream in(text);
    return from_csv(in, "own.csv");
}

std::string refusal(const std::string& text) {
    try {
        parse(text);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "";
}

void expect_refusal(const std::string& text, const std::string& part) {
    EXPECT_NE(refusal(text).find(part), std::string::npos) << text << " -> " << refusal(text);
}

TEST(Csv, EveryOrderFileIsReadAndWrittenUnchanged) {
    for (const std::string& file : order_files("")) {
        const Schedule schedule = read_order(file);
        const Schedule again = parse(to_csv(schedule, {.overlap = schedule.has_overlaps()}));
        EXPECT_EQ(again.ranks, schedule.ranks) << file;
        EXPECT_EQ(parse(to_csv(schedule)).ranks, flattened(schedule).ranks) << file;
        EXPECT_EQ(again.placement, schedule.placement) << file;
        const bool v = file.rfind("zbv", 0) == 0 || file.rfind("dualpipev", 0) == 0;
        EXPECT_EQ(schedule.placement == Placement::v, v && schedule.pp > 1) << file;
        EXPECT_NE(
            file.find("_V" + std::to_string(schedule.chunks) + "_M" + std::to_string(schedule.micro_batches)),
            std::string::npos)
            << file;
    }
    EXPECT_EQ(to_csv(generate({"1f1b", 2, 1, 2})), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
}

TEST(Csv, EveryKindIsReadAsItWasWritten) {
    for (const int pp : {1, 2, 4, 6})
        for (const int micro_batches : {1, 2, 5, 12})
            for (const Schedule& schedule : every_kind(pp, micro_batches))
                for (const bool communication : {false, true}) {
                    const std::string text = to_csv(schedule, {true, communication});
                    const Schedule again = parse(text);
                    EXPECT_EQ(again.ranks, schedule.ranks)
                        << schedule.kind << " " << pp << " " << micro_batches;
                    EXPECT_EQ(again.stages(), schedule.stages()) << schedule.kind;
                    EXPECT_EQ(again.micro_batches, schedule.micro_batches) << schedule.kind;
                    EXPECT_EQ(to_csv(again, {true, communication}), text) << schedule.kind;
                    EXPECT_EQ(parse(to_csv(schedule, {false, communication})).ranks,
                              flattened(schedule).ranks)
                        << schedule.kind;
                }
    EXPECT_EQ(parse(to_csv(generate({"dualpipe", 2, 2, 4}))).placement, Placement::bidirectional);
    EXPECT_EQ(parse(to_csv(generate({"zbv", 2, 2, 4}))).placement, Placement::v);
    EXPECT_EQ(parse(to_csv(generate({"interleaved", 2, 2, 4}))).placement, Placement::loop);
}

TEST(Csv, IdleCellsSpacesAndLineEndsDoNotMatter) {
    const Schedule schedule = parse("0F0,0F1, 0B0 ,,0B1\r\n,1F0,1B0,1F1,1B1,,\r\n\r\n");
    EXPECT_EQ(schedule.ranks, generate({"1f1b", 2, 1, 2}).ranks);
}

TEST(Csv, MarksOfSpreadsheetsDoNotMatter) {
    EXPECT_EQ(parse("\xEF\xBB\xBF\"0F0\",\" 0B0\"\r\n1F0,1B0").ranks, generate({"1f1b", 2, 1, 1}).ranks);
}

TEST(Csv, OverlappedPairsAreKeptOrFlattened) {
    const std::string text = "0F0,1F0,(0F1;1B0)OVERLAP_F_B,(1F1;0B0)OVERLAP_F_B,1B1,0B1\n";
    const Schedule schedule = parse(text);
    const auto& actions = schedule.ranks[0];
    ASSERT_EQ(actions.size(), 8u);
    EXPECT_EQ(actions[2], (Action{ActionKind::F, 0, 1, true}));
    EXPECT_EQ(actions[3], (Action{ActionKind::B, 1, 0, false}));
    EXPECT_EQ(to_csv(schedule, {.overlap = true}), text);
    EXPECT_EQ(to_csv(schedule), "0F0,1F0,0F1,1B0,1F1,0B0,1B1,0B1\n");
    EXPECT_EQ(parse("0F0,1F0,( 0F1 ; 1B0 )OVERLAP_F_B,(1F1;0B0)OVERLAP_F_B,1B1,0B1").ranks, schedule.ranks);
    for (const char* bad : {"(0F0;1B0)", "(0F0)OVERLAP_F_B", "(0B0;1F0)OVERLAP_F_B", "(0F0;1I0)OVERLAP_F_B",
                            "(0F0;1B0;2F0)OVERLAP_F_B", "(0F0;1B)OVERLAP_F_B", "(0F0;1SEND_B0)OVERLAP_F_B"})
        expect_refusal(std::string("0F0\n") + bad, "own.csv:2: cell `" + std::string(bad) + "`");
}

// 1f1b on two ranks: a RECV stands where its sender has just sent.
TEST(Csv, CommunicationStandsInOneGlobalOrder) {
    EXPECT_EQ(to_csv(generate({"1f1b", 2, 1, 2}), {.communication = true}),
              "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
              "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n");
    // Stage 1 and stage 2 share rank 1: nothing is sent between them.
    const Schedule v = parse("0F0,3F0,3I0,3W0,0I0,0W0\n1F0,2F0,2I0,1I0,2W0,1W0\n");
    EXPECT_EQ(to_csv(v, {.communication = true}),
              "0F0,0SEND_F0,3RECV_F0,3F0,3I0,3SEND_B0,3W0,0RECV_B0,0I0,0W0\n"
              "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2I0,1I0,1SEND_B0,2W0,1W0\n");
    const Schedule pairs =
        parse("0F0,0F1,3F0,3B0,3F1,3B1,0B0,0B1\n1F0,2F0,(1F1;2B0)OVERLAP_F_B,(2F1;1B0)OVERLAP_F_B,2B1,1B1\n");
    EXPECT_EQ(to_csv(pairs, {.overlap = true, .communication = true}),
              "0F0,0SEND_F0,0F1,0SEND_F1,3RECV_F0,3F0,3B0,3SEND_B0,3RECV_F1,0RECV_B0,3F1,3B1,3SEND_B1,0B0,"
              "0RECV_B1,0B1\n"
              "1RECV_F0,1F0,1RECV_F1,2F0,2SEND_F0,2RECV_B0,(1F1;2B0)OVERLAP_F_B,(2F1;1B0)OVERLAP_F_B,"
              "2SEND_F1,1SEND_B0,2RECV_B1,2B1,1B1,1SEND_B1\n");
}

TEST(Csv, CommunicationCellsAreReadAndDropped) {
    for (const std::string& file : order_files("")) {
        const Schedule schedule = read_order(file);
        const Schedule again = parse(to_csv(schedule, {.overlap = true, .communication = true}));
        EXPECT_EQ(again.ranks, schedule.ranks) << file;
        EXPECT_EQ(again.placement, schedule.placement) << file;
    }
    EXPECT_EQ(
        parse("0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD\n1RECV_F0,1F0,1B0,1SEND_B0\n").ranks,
        generate({"1f1b", 2, 1, 1}).ranks);
    expect_refusal("0F0,0B0\n0SEND_F0,1F0,1B0\n",
                   "own.csv:2: cell `0SEND_F0` stands on the wrong line: stage 0 computes on line 1");
    expect_refusal("0F0,0SEND_F1,0B0\n1F0,1B0\n", "cell `0SEND_F1` is of a stage or micro-batch that no");
    expect_refusal("0F0,2RECV_B0,0B0\n1F0,1B0\n", "there are stages 0 to 1, micro-batches 0 to 0");
}

TEST(Csv, WhatIsMissingOrOutOfOrderIsNamedWithItsLine) {
    expect_refusal(std::string(5000, 'x') + "\n", "cell `" + std::string(40, 'x') + "...` is none");
    expect_refusal(std::string("\x1b[31m\n"), "cell `?[31m` is none");
    expect_refusal("0F4000000000\n", "numbers below 4194304");
    expect_refusal("0F0,0B0\n\n1F0\n", "own.csv:3: 1B0 (or I and W) is missing; add it to this line");
    expect_refusal("0F0,0B0\n1F0,1B0,1F0\n", "own.csv:2: cell `1F0` is wrong: it comes a second time");
    expect_refusal("0B0,0F0\n1F0,1B0\n", "own.csv:1: cell `0B0` is wrong: 0F0 must come before it");
    expect_refusal("0F0,0I0,0B0,0W0\n",
                   "own.csv:1: cell `0B0` is wrong: this backward is already done in halves");
    expect_refusal("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n",
                   "own.csv:1: cell `0F1` is wrong: it overlaps 0B0 of the same");
    EXPECT_EQ(parse("0F0,0F1\n1F0,1F1\n").ranks[1].size(), 2u);  // forwards alone: validation
}

TEST(Csv, TwoCopiesAreRecognised) {
    const Schedule schedule = parse("0F0,1F2,0F1,1B2,1F3,0B0,1B3,0B1\n0F2,1F0,0F3,1B0,1F1,0B2,1B1,0B3\n");
    EXPECT_EQ(schedule.placement, Placement::bidirectional);
    EXPECT_EQ(schedule.chunks, 2);
    EXPECT_EQ(schedule.stages(), 2);
    EXPECT_EQ(schedule.micro_batches, 4);
    EXPECT_EQ(parse(to_csv(schedule, {.communication = true})).ranks, schedule.ranks);
}

// PyTorch's names before 2025: BW for the whole backward, B for its input half.
TEST(Csv, OldNamesAreReadWhereTheyCanMeanNothingElse) {
    const Schedule schedule = parse("0F0,0F1,0B0,0W0,0BW1\n");
    const std::vector<Action> expected = {{ActionKind::F, 0, 0},
                                          {ActionKind::F, 0, 1},
                                          {ActionKind::I, 0, 0},
                                          {ActionKind::W, 0, 0},
                                          {ActionKind::B, 0, 1}};
    EXPECT_EQ(schedule.ranks[0], expected);
    EXPECT_EQ(parse("0F0,0B0,0W0\n").ranks[0][1].kind, ActionKind::I);
    EXPECT_EQ(parse("0F0,0BW0\n").ranks[0][1].kind, ActionKind::B);
    EXPECT_EQ(parse("0F0,0F1,0B0,0I1,0W1\n").ranks[0][2].kind, ActionKind::B);
    expect_refusal("0F0,0F1\n0I0,0W0,0BW1\n", "own.csv:2: cell `0BW1` is PyTorch's old name");
}

TEST(Csv, ABadCellIsNamedWithItsLine) {
    expect_refusal("0F0,0B0\n1F0,1X0\n", "own.csv:2: cell `1X0`");
    for (const char* bad : {"F0", "0F", "0F0x", "0", "-1F0", "0F-1", "0F99999999999", "0SEND_F", "0f0",
                            "0RECV0", "0FB0", "0F 0", "0UNSHARDx", "+1F0", "0F0 0F1", "0W", "\"0F0"})
        expect_refusal(bad, std::string("own.csv:1: cell `") + bad + "`");
    expect_refusal("", "no compute cell");
    expect_refusal("0SEND_F0\n", "no compute cell");
    expect_refusal("0F0\n1F0\n2F0\n0F1\n", "3 stages on 4");
    expect_refusal("0F0,1F0\n\n2F0,3F0\n",
                   "own.csv:1: cell `1F0` is out of place: the 4 stages lie on the 2 "
                   "ranks (lines) neither in a loop");
    expect_refusal("0F0,0F1\n\n1F0,0F2\n", "own.csv:3: cell `0F2` is out of place");
}

}  // namespace
}  // namespace escalier::schedule
