#include "schedule/generators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "core/error.h"
#include "golden.h"
#include "schedule/prove.h"
#include "schedule/simulate.h"

namespace escalier::schedule {
namespace {

std::string refusal(const GenerateOptions& options) {
    try {
        generate(options);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "";
}

// How the order files name what generate() takes: interleaved-N4_P2_V2_M4.csv, looped_bfs_P1_V2_M4.csv.
GenerateOptions options_of(const std::string& file, const Schedule& sizes) {
    static const std::map<std::string, std::pair<std::string, BackwardOrder>> names = {
        {"gpipe_lifo", {"gpipe", BackwardOrder::lifo}},
        {"looped_bfs", {"bfs", BackwardOrder::lifo}},
        {"looped_bfs_fifo", {"bfs", BackwardOrder::fifo}},
        {"zbh1", {"zb-h1", BackwardOrder::fifo}},
        {"zbh2", {"zb-h2", BackwardOrder::fifo}},
        {"interleaved_zb", {"interleaved-zb", BackwardOrder::fifo}}};
    GenerateOptions options;
    options.pp = sizes.pp;
    options.chunks = sizes.chunks;
    options.micro_batches = sizes.micro_batches;
    const std::string full = file.substr(0, file.find("_P"));
    const std::string name = full.substr(0, full.find('-'));
    if (const auto group = full.find("-N"); group != std::string::npos)
        options.group = std::stoi(full.substr(group + 2));
    const auto found = names.find(name);
    std::tie(options.kind, options.backward) =
        found == names.end() ? std::pair{name, BackwardOrder::fifo} : found->second;
    return options;
}

TEST(Generators, MatchEveryOrderFile) {
    const std::vector<std::string> files = order_files("");
    EXPECT_EQ(files.size(), 201u);
    for (const std::string& file : files) {
        const Schedule expected = read_order(file);
        Schedule made = generate(options_of(file, expected));
        const bool paired = file.find("-overlap") != std::string::npos;
        EXPECT_EQ(made.has_overlaps(), paired || file.rfind("dualpipe", 0) == 0) << file;
        if (!paired) made = flattened(std::move(made));
        EXPECT_EQ(made.ranks, expected.ranks) << file;
        EXPECT_TRUE(made.placement == expected.placement || made.pp == 1) << file;
    }
}

// What the constraints in the table say, written once more.
bool allowed(const GenerateOptions& o) {
    const Kind& kind = *find_kind(o.kind);
    if (o.backward == BackwardOrder::lifo && o.kind != "gpipe" && o.kind != "bfs") return false;
    const bool grouped = o.kind == "interleaved" || o.kind == "interleaved-zb";
    if (o.group != 0 && (!grouped || o.group < std::min(o.pp, o.micro_batches) || o.group > o.micro_batches))
        return false;
    if (grouped || o.kind == "bfs") return o.chunks > 1;
    if (o.kind == "auto") return true;
    if (o.kind == "dualpipe") return o.chunks == 2 && o.pp % 2 == 0 && o.micro_batches > 1;
    return o.chunks == kind.default_chunks;
}

void expect_proved_or_refused(const GenerateOptions& options) {
    const Kind& kind = *find_kind(options.kind);
    SCOPED_TRACE(options.kind + " P" + std::to_string(options.pp) + " V" + std::to_string(options.chunks) +
                 " M" + std::to_string(options.micro_batches) + " group " + std::to_string(options.group));
    if (!allowed(options)) {
        const std::string why = refusal(options);
        EXPECT_EQ(why.rfind("schedule `" + options.kind + "`: ", 0), 0u) << why;
        EXPECT_NE(why.find("; "), std::string::npos) << "how to mend it: " << why;
        return;
    }
    const Schedule made = generate(options);
    EXPECT_EQ(made.kind, options.kind);
    EXPECT_EQ(made.pp, options.pp);
    EXPECT_EQ(made.chunks, options.chunks);
    EXPECT_EQ(made.micro_batches, options.micro_batches);
    const Proof proof = prove(made);
    // Of one micro-batch there is only one order.
    const bool in_order = options.backward == BackwardOrder::fifo || options.micro_batches == 1;
    EXPECT_EQ(proof.exact, kind.exact && in_order);
}

TEST(Generators, EverySizeIsProvedOrRefused) {
    for (const Kind& kind : kinds())
        for (int pp = 1; pp <= 8; ++pp)
            for (int m = 1; m <= 3 * pp + 3; ++m) {
                for (int chunks = 1; chunks <= 4; ++chunks)
                    expect_proved_or_refused({std::string(kind.name), pp, chunks, m});
                expect_proved_or_refused(
                    {std::string(kind.name), pp, kind.default_chunks, m, BackwardOrder::lifo});
            }
}

TEST(Generators, EveryGroupSizeIsProvedOrRefused) {
    for (const std::string kind : {"interleaved", "interleaved-zb"})
        for (int pp = 1; pp <= 6; ++pp)
            for (int m = 1; m <= 3 * pp + 3; ++m)
                for (int group = -1; group <= m + 1; ++group)
                    for (const int chunks : {2, 3})
                        expect_proved_or_refused(
                            {.kind = kind, .pp = pp, .chunks = chunks, .micro_batches = m, .group = group});
}

TEST(Generators, AnUnknownKindIsRefusedWithTheNearest) {
    EXPECT_NE(refusal({"1f1", 4, 1, 6}).find("did you mean `1f1b`"), std::string::npos);
    EXPECT_NE(refusal({"gpip", 4, 1, 6}).find("did you mean `gpipe`"), std::string::npos);
    EXPECT_NE(refusal({"gppie", 4, 1, 6}).find("did you mean `gpipe`"), std::string::npos);
    const std::string far = refusal({"nothing-like-it", 4, 1, 6});
    EXPECT_EQ(far.find("did you mean"), std::string::npos);
    EXPECT_NE(far.find("gpipe, 1f1b"), std::string::npos);
}

TEST(Generators, SizesOutOfRangeAreRefused) {
    EXPECT_NE(refusal({"1f1b", 0, 1, 6}).find("pipeline rank, found 0"), std::string::npos);
    EXPECT_NE(refusal({"1f1b", 4, 1, 0}).find("micro-batch, found 0"), std::string::npos);
    EXPECT_NE(refusal({"1f1b", 4, 2, 6}).find("found chunks 2"), std::string::npos);
    EXPECT_NE(refusal({"gpipe", 1 << 20, 1, 1 << 20}).find("larger than"), std::string::npos);
    EXPECT_NE(refusal({"1f1b", 4, 1, 6, BackwardOrder::lifo}).find("lifo"), std::string::npos);
    EXPECT_EQ(refusal({"gpipe", 4, 1, 6, BackwardOrder::lifo}), "");
    EXPECT_THROW(parse_backward_order("up"), ConfigError);
}

TEST(Generators, RefusalsNameTheNearestValidSizes) {
    const auto refuses = [](const GenerateOptions& options, const std::string& text) {
        EXPECT_EQ(refusal(options), "schedule `" + options.kind + "`: " + text);
    };
    refuses({"zb-h1", 4, 2, 8}, "it has one chunk per rank, found chunks 2; leave chunks at 1");
    refuses({"zbv", 4, 3, 8}, "it has two chunks per rank, found chunks 3; set chunks to 2");
    refuses({"interleaved", 4, 1, 8},
            "it needs two or more chunks per rank, found chunks 1; set chunks to 2 or more, or use schedule "
            "1f1b");
    refuses({"dualpipe", 3, 2, 8},
            "its pipeline ranks must be even, found 3; use 2 or 4, or schedule dualpipev");
    refuses({"dualpipe", 1, 2, 8}, "its pipeline ranks must be even, found 1; use 2, or schedule dualpipev");
    refuses(
        {"dualpipe", 4, 2, 1},
        "it feeds micro-batches in at both ends of the pipeline, found micro-batches 1; use 2 or more, or "
        "schedule dualpipev");
    const auto group = [](int size) {
        return GenerateOptions{
            .kind = "interleaved", .pp = 4, .chunks = 2, .micro_batches = 8, .group = size};
    };
    refuses(
        group(2),
        "its group size must be from 4 (pipeline ranks) to 8 (micro-batches), found group 2; use 4 or leave "
        "it out");
    refuses(group(-1),
            "its group size must be from 4 (pipeline ranks) to 8 (micro-batches), found group -1; use 4 or "
            "leave it out");
    refuses(
        group(9),
        "its group size must be from 4 (pipeline ranks) to 8 (micro-batches), found group 9; use 8 or leave "
        "it out");
    refuses({.kind = "interleaved-zb", .pp = 4, .chunks = 2, .micro_batches = 3, .group = 2},
            "its group size must be all 3 micro-batches, found group 2; use 3 or leave it out");
    refuses({.kind = "zbv", .pp = 4, .chunks = 2, .micro_batches = 8, .group = 4},
            "it has no group size, found group 4; leave it out");
}

// The last group may be short, and default groups share out what does not divide.
TEST(Generators, InterleavedLosesNoTimeToMicroBatchesThatDoNotDivide) {
    const auto makespan = [](int micro_batches) {
        const Schedule schedule = generate({"interleaved", 4, 2, micro_batches});
        return simulate(schedule, Durations::uniform(8, 1, 1, 1, 0)).makespan;
    };
    for (int m = 4; m <= 40; ++m) EXPECT_DOUBLE_EQ(makespan(m), 6 * m + 9) << m;
}

TEST(Generators, ForwardOnlyKeepsTheForwardOrder) {
    const Schedule forward = forward_only(generate({"1f1b", 3, 1, 4}));
    for (int rank = 0; rank < 3; ++rank) {
        const auto& actions = forward.ranks[static_cast<std::size_t>(rank)];
        ASSERT_EQ(actions.size(), 4u);
        for (int mb = 0; mb < 4; ++mb)
            EXPECT_EQ(actions[static_cast<std::size_t>(mb)], (Action{ActionKind::F, rank, mb}));
    }
}

}  // namespace
}  // namespace escalier::schedule
