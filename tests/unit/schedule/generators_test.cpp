#include "schedule/generators.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "core/error.h"
#include "golden.h"
#include "schedule/prove.h"

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

TEST(Generators, TheTableTellsWhichKindsAreExact) {
    for (const Kind& kind : kinds()) {
        GenerateOptions options{std::string(kind.name), 4, kind.default_chunks, 6, BackwardOrder::fifo};
        EXPECT_EQ(prove(generate(options)).exact, kind.exact) << kind.name;
        if (!kind.has_lifo) continue;
        options.backward = BackwardOrder::lifo;
        EXPECT_FALSE(prove(generate(options)).exact) << kind.name;
    }
}

TEST(Generators, OneForwardOneBackwardHoldsAsManyActivationsAsRanksFollow) {
    for (int pp = 1; pp <= 6; ++pp) {
        for (int micro_batches = 1; micro_batches <= 12; ++micro_batches) {
            const Proof proof = prove(generate({"1f1b", pp, 1, micro_batches}));
            for (int rank = 0; rank < pp; ++rank)
                EXPECT_EQ(proof.peak_until_weight[static_cast<std::size_t>(rank)],
                          std::min(micro_batches, pp - rank));
        }
    }
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
