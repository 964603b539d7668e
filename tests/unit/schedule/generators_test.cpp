#include "schedule/generators.h"

#include <gtest/gtest.h>

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

TEST(Generators, MatchTheOrderFiles) {
    std::size_t compared = 0;
    for (const std::string prefix : {"gpipe_P", "gpipe_lifo_P", "1f1b_P"}) {
        for (const std::string& file : order_files(prefix)) {
            const Schedule expected = read_order(file);
            GenerateOptions options;
            options.kind = prefix.substr(0, prefix.find('_'));
            options.pp = expected.pp;
            options.micro_batches = expected.micro_batches;
            if (prefix == "gpipe_lifo_P") options.backward = BackwardOrder::lifo;
            const Schedule made = generate(options);
            EXPECT_EQ(made.ranks, expected.ranks) << file;
            EXPECT_EQ(made.stages(), expected.stages()) << file;
            ++compared;
        }
    }
    EXPECT_EQ(compared, 28u);
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
