#include "plan/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "config/validate.h"

namespace escalier::plan {
namespace {

SearchProblem problem(std::int64_t ranks = 8) {
    SearchProblem p;
    config::ModelConfig& m = p.spec.model;
    m.arch = config::Arch::llama;
    m.num_layers = 6;
    m.hidden_size = 2048;
    m.num_heads = 16;
    m.num_kv_heads = 4;
    m.head_dim = 128;
    m.ffn_size = 8192;
    m.vocab_size = 32000;
    m.tie_embeddings = false;
    p.spec.train.seq_len = 2048;
    p.spec.train.global_batch = 32;
    p.spec.train.dtype = "bf16";
    p.ranks = ranks;
    p.hardware = built_in_hardware("h100");
    p.hardware.node.gpus = 4;
    p.memory_limit = 1e18;
    return p;
}

// Every candidate with every uniform recompute.
std::vector<Found> everything(const SearchProblem& p) {
    std::vector<Found> all;
    for (Candidate candidate : enumerate(p.spec, p.ranks)) {
        const config::ModelTimes times = roofline_times(
            p.spec.model, candidate.micro_batch, p.spec.train.seq_len, "bf16", candidate.grid, p.hardware);
        for (const RecomputeChoice recompute :
             {RecomputeChoice::none, RecomputeChoice::attention, RecomputeChoice::full}) {
            candidate.recompute = recompute;
            price(candidate, p.spec, times);
            all.push_back(try_candidate(p, candidate));
        }
    }
    return all;
}

TEST(Search, BoundsLieBelowAndSizesAreRight) {
    std::set<std::string> seen;
    for (const Found& found : everything(problem())) {
        const Candidate& c = found.candidate;
        EXPECT_LE(c.bound, found.prediction.step * (1 + 1e-9))
            << c.schedule << " tp " << c.grid.tp << " pp " << c.grid.pp << " chunks " << c.chunks;
        EXPECT_EQ(c.grid.tp * c.grid.pp * c.grid.dp, 8);
        EXPECT_EQ(c.micro_batch * c.micro_batches * c.grid.dp, 32);
        std::int64_t layers = 0;
        for (const std::int64_t n : c.layers) {
            EXPECT_GE(n, 1);
            layers += n;
        }
        EXPECT_EQ(layers, 6);
        seen.insert(c.schedule);
    }
    for (const char* kind : {"1f1b", "gpipe", "interleaved", "zb-h1", "zbv", "dualpipe"})
        EXPECT_TRUE(seen.count(kind)) << kind;
}

TEST(Search, TriesEveryMicroBatchAndEveryNumberOfChunks) {
    SearchProblem p = problem(2);
    p.spec.model.num_layers = 10;
    p.spec.train.global_batch = 36;
    std::set<std::int64_t> micro_batches;
    std::set<int> chunks;
    for (const Candidate& c : enumerate(p.spec, p.ranks)) {
        if (c.grid.pp != 2) continue;
        micro_batches.insert(c.micro_batch);
        if (c.schedule == "interleaved") chunks.insert(c.chunks);
    }
    EXPECT_EQ(micro_batches, (std::set<std::int64_t>{1, 2, 3, 4, 6, 9, 12, 18, 36}));
    EXPECT_EQ(chunks, (std::set<int>{2, 3, 4, 5}));
}

TEST(Search, EqualsBruteForceUnderAnyLimit) {
    SearchProblem p = problem();
    const std::vector<Found> all = everything(p);
    for (const double gib : {1e9, 12.0, 8.0, 6.0, 5.0}) {
        p.memory_limit = gib * 1024 * 1024 * 1024;
        double best = std::numeric_limits<double>::infinity();
        for (const Found& found : all)
            if (found.bytes <= p.memory_limit) best = std::min(best, found.prediction.step);
        const SearchResult result = search(p);
        EXPECT_LE(result.too_large, result.candidates);
        if (result.best.empty()) {
            EXPECT_EQ(result.too_large, result.candidates) << gib;
            EXPECT_EQ(best, std::numeric_limits<double>::infinity()) << gib;
            continue;
        }
        EXPECT_TRUE(result.complete);
        // Recompute per stage may beat what is the same on all stages.
        EXPECT_LE(result.best[0].prediction.step, best * (1 + 1e-9)) << gib;
        if (result.best[0].candidate.recompute != RecomputeChoice::per_stage)
            EXPECT_NEAR(result.best[0].prediction.step, best, 1e-9 * best) << gib;
        std::set<std::string> kinds;
        for (std::size_t i = 0; i < result.best.size(); ++i) {
            EXPECT_LE(result.best[i].bytes, p.memory_limit);
            if (i > 0) EXPECT_LE(result.best[i - 1].prediction.step, result.best[i].prediction.step);
            const Candidate& c = result.best[i].candidate;
            EXPECT_TRUE(
                kinds.insert(c.schedule + " " + std::to_string(c.grid.tp) + " " + std::to_string(c.grid.pp))
                    .second);
        }
        EXPECT_LE(result.best.size(), 10u);
    }
}

TEST(Search, MoreMemoryAndBandwidthAreNeverSlower) {
    SearchProblem p = problem();
    double before = std::numeric_limits<double>::infinity();
    for (const double gib : {5.0, 8.0, 20.0, 1e6}) {
        p.memory_limit = gib * 1024 * 1024 * 1024;
        const SearchResult result = search(p);
        const double step =
            result.best.empty() ? std::numeric_limits<double>::infinity() : result.best[0].prediction.step;
        EXPECT_LE(step, before) << gib;
        before = step;
    }
    p.hardware.between.gb_per_s *= 2;
    EXPECT_LE(search(p).best[0].prediction.step, before);
}

TEST(Search, AsksTheOracleAboutWhatItWouldTake) {
    SearchProblem p = problem();
    int asked = 0;
    p.memory = [&](const config::JobSpec& spec, const schedule::Schedule& schedule) {
        ++asked;
        EXPECT_EQ(spec.parallel.pp, schedule.pp);
        if (schedule.copies() == 1)
            EXPECT_EQ(config::resolve(spec, 8).pipeline.layers_per_stage, spec.pipeline.layers_per_stage);
        return spec.parallel.tp == 2 ? 1.0 : 2e18;
    };
    const SearchResult result = search(p);
    EXPECT_GT(asked, 0);
    ASSERT_FALSE(result.best.empty());
    for (const Found& found : result.best) EXPECT_EQ(found.candidate.grid.tp, 2);
}

// What both ends of the model share is there once, on whatever rank holds both.
TEST(Search, CountsATiedTableOnceWhereTheEndsMeet) {
    constexpr double bytes_of_an_element = 4 + 4 + 8 + 2;  // weight, gradient, moments, copy
    SearchProblem p = problem(4);
    const double table = bytes_of_an_element * 32000 * 2048;
    const auto both = [&](const Candidate& c, bool tied) {
        p.spec.model.tie_embeddings = tied;
        Candidate priced = c;
        price(priced, p.spec, roofline_times(p.spec.model, c.micro_batch, 2048, "bf16", c.grid, p.hardware));
        return std::make_pair(priced.bytes, try_candidate(p, priced).bytes);
    };
    const std::set<std::string> in_a_v_or_both_ways = {"zbv", "v-half", "v-min", "dualpipe", "dualpipev"};
    std::set<std::string> met, apart;
    for (const Candidate& c : enumerate(p.spec, p.ranks)) {
        if (c.micro_batch != 1 || c.layout != Layout::even || c.grid.tp != 1) continue;
        const auto untied = both(c, false), tied = both(c, true);
        const bool meet = in_a_v_or_both_ways.count(c.schedule) > 0;
        (meet ? met : apart).insert(c.schedule);
        EXPECT_NEAR(untied.first - tied.first, meet ? table : 0, 1) << c.schedule << " pp " << c.grid.pp;
        EXPECT_NEAR(untied.second - tied.second, meet ? table : 0, 1) << c.schedule << " pp " << c.grid.pp;
    }
    EXPECT_EQ(met, in_a_v_or_both_ways);
    EXPECT_TRUE(apart.count("1f1b") && apart.count("interleaved"));

    // One rank alone fits where its table counts once, and only there.
    p = problem(1);
    p.spec.model.tie_embeddings = true;
    p.spec.train.global_batch = 1;
    const double least = [&] {
        Candidate c = enumerate(p.spec, 1).at(0);
        c.recompute = RecomputeChoice::full;
        return try_candidate(p, c).bytes;
    }();
    p.memory_limit = least + table / 2;
    ASSERT_FALSE(search(p).best.empty());
    p.spec.model.tie_embeddings = false;
    EXPECT_TRUE(search(p).best.empty());
}

TEST(Search, NothingFits) {
    SearchProblem p = problem();
    p.memory_limit = 1e6;
    const SearchResult result = search(p);
    EXPECT_TRUE(result.best.empty());
    EXPECT_EQ(result.simulated, 0u);
    EXPECT_GT(result.too_large, 100u);
    EXPECT_EQ(result.too_large, result.candidates);
    p.memory_limit = 1e18;
    p.memory = [](const config::JobSpec&, const schedule::Schedule&) { return 2e18; };
    const SearchResult asked = search(p);
    EXPECT_TRUE(asked.best.empty());
    EXPECT_LE(asked.too_large, asked.candidates);
    EXPECT_GT(asked.too_large, 100u);
}

}  // namespace
}  // namespace escalier::plan
