#include "config/layout.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <random>

#include "config_test_support.h"

namespace escalier::config {
namespace {

using Layout = std::vector<std::int64_t>;

double slowest(const ModelCost& cost, const Layout& layout, const std::vector<Recompute>& recompute) {
    double most = 0.0;
    for (std::size_t stage = 0; stage < layout.size(); ++stage)
        most = std::max(
            most, stage_cost(cost, layout[stage], stage == 0, stage + 1 == layout.size(), recompute[stage]));
    return most;
}

// Calls `visit` with every way to give `layers` layers to `stages` stages.
void every_layout(std::int64_t layers, std::size_t stages, Layout& prefix,
                  const std::function<void(const Layout&)>& visit) {
    if (prefix.size() + 1 == stages) {
        prefix.push_back(layers);
        visit(prefix);
        prefix.pop_back();
        return;
    }
    for (std::int64_t here = 1; here <= layers - static_cast<std::int64_t>(stages - prefix.size() - 1);
         ++here) {
        prefix.push_back(here);
        every_layout(layers - here, stages, prefix, visit);
        prefix.pop_back();
    }
}

TEST(BalancedLayout, IsAsGoodAsTheBestOfAllLayouts) {
    std::mt19937 random(3);
    const auto draw = [&](double most) { return most * static_cast<double>(random() % 1000) / 1000.0; };
    for (int round = 0; round < 300; ++round) {
        const std::size_t stages = 1 + random() % 5;
        const std::int64_t layers = static_cast<std::int64_t>(stages + random() % 8);
        ModelCost cost{.embedding = draw(3.0), .layer = 0.1 + draw(1.0), .attention = 0.0, .head = draw(5.0)};
        cost.attention = cost.layer * draw(1.0);
        std::vector<Recompute> recompute(stages);
        for (Recompute& kind : recompute) kind = static_cast<Recompute>(random() % 3);

        const Layout found = balanced_layout(cost, layers, recompute);
        ASSERT_EQ(found.size(), stages);
        EXPECT_EQ(std::accumulate(found.begin(), found.end(), std::int64_t{0}), layers);
        for (std::int64_t count : found) EXPECT_GE(count, 1);
        double best = 1e300;
        Layout prefix;
        every_layout(layers, stages, prefix,
                     [&](const Layout& layout) { best = std::min(best, slowest(cost, layout, recompute)); });
        EXPECT_NEAR(slowest(cost, found, recompute), best, 1e-9 * best);
    }
}

TEST(BalancedLayout, EqualWorkIsSplitEvenly) {
    const ModelCost cost{.embedding = 0.0, .layer = 1.0, .attention = 0.3, .head = 0.0};
    EXPECT_EQ(balanced_layout(cost, 12, std::vector<Recompute>(4, Recompute::none)), (Layout{3, 3, 3, 3}));
    EXPECT_EQ(balanced_layout(cost, 5, {Recompute::none}), (Layout{5}));
    Layout uneven = balanced_layout(cost, 10, std::vector<Recompute>(4, Recompute::none));
    std::sort(uneven.begin(), uneven.end());
    EXPECT_EQ(uneven, (Layout{2, 2, 3, 3}));
}

TEST(BalancedLayout, HeadAndRecomputeTakeLayersAway) {
    const ModelCost head{.embedding = 0.0, .layer = 1.0, .attention = 0.0, .head = 2.0};
    EXPECT_EQ(balanced_layout(head, 10, std::vector<Recompute>(3, Recompute::none)), (Layout{4, 4, 2}));
    const ModelCost plain{.embedding = 0.0, .layer = 1.0, .attention = 0.0, .head = 0.0};
    EXPECT_EQ(balanced_layout(plain, 7, {Recompute::full, Recompute::none}), (Layout{3, 4}));
}

TEST(BalancedLayout, LargestPresetIsQuick) {
    const JobSpec spec = testing::resolved("model: {preset: llama3.1-405b}\n", 126, {"parallel.pp=126"});
    EXPECT_EQ(spec.pipeline.layers_per_stage, Layout(126, 1));
}

double sum_of_squares(const ModelCost& cost, const Layout& layout, const std::vector<Recompute>& recompute) {
    double sum = 0.0;
    for (std::size_t stage = 0; stage < layout.size(); ++stage) {
        const double own =
            stage_cost(cost, layout[stage], stage == 0, stage + 1 == layout.size(), recompute[stage]);
        sum += own * own;
    }
    return sum;
}

// Whole costs, so that equally good layouts are exactly equal: the first of them in order is taken.
TEST(BalancedLayout, IsTheEvenestOfTheBestAndTheFirstOfEquals) {
    std::mt19937 random(5);
    const auto draw = [&](unsigned least, unsigned most) {
        return static_cast<double>(least + random() % (most - least + 1));
    };
    for (int round = 0; round < 300; ++round) {
        const std::size_t stages = 1 + random() % 5;
        const std::int64_t layers = static_cast<std::int64_t>(stages + random() % 8);
        ModelCost cost{.embedding = draw(0, 2), .layer = draw(1, 3), .attention = 0.0, .head = draw(0, 4)};
        cost.attention = draw(0, 1);
        std::vector<Recompute> recompute(stages);
        for (Recompute& kind : recompute) kind = static_cast<Recompute>(random() % 3);
        Layout best, prefix;
        double most = 1e300, squares = 1e300;
        every_layout(layers, stages, prefix, [&](const Layout& layout) {
            const double slow = slowest(cost, layout, recompute);
            const double sum = sum_of_squares(cost, layout, recompute);
            if (slow > most || (slow == most && sum >= squares)) return;
            best = layout;
            most = slow;
            squares = sum;
        });
        EXPECT_EQ(balanced_layout(cost, layers, recompute), best);
    }
}

// Layers and stages at their limits: work that grows with stages x layers^2 would take hours here.
TEST(BalancedLayout, LargestCountsEnd) {
    const ModelCost cost{.embedding = 0.1, .layer = 1.0, .attention = 0.3, .head = 40.0};
    const Layout layout = balanced_layout(cost, 16384, std::vector<Recompute>(1000, Recompute::none));
    EXPECT_EQ(layout.size(), 1000u);
    EXPECT_EQ(std::accumulate(layout.begin(), layout.end(), std::int64_t{0}), 16384);
    EXPECT_EQ(layout.back(), 1);
}

TEST(EvenLayout, CountsDifferByAtMostOne) {
    EXPECT_EQ(even_layout(12, 4), (Layout{3, 3, 3, 3}));
    EXPECT_EQ(even_layout(10, 4), (Layout{3, 3, 2, 2}));
    EXPECT_EQ(even_layout(4, 4), (Layout{1, 1, 1, 1}));
}

TEST(ForwardCost, CountsHeadAndCausalAttention) {
    const ModelConfig model = testing::resolved("model: {preset: gpt2-124m}\n", 1).model;
    const ModelCost cost = forward_cost(model, 1024, 1);
    EXPECT_EQ(cost.attention, 2.0 * 768 * 1024);
    EXPECT_EQ(cost.layer, 24.0 * 768 * 768 + cost.attention);
    EXPECT_EQ(cost.head, 2.0 * 768 * 50304);
    EXPECT_GT(cost.embedding, 0.0);
    EXPECT_LT(cost.embedding, 0.02 * cost.layer);
}

}  // namespace
}  // namespace escalier::config
