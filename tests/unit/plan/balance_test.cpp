#include "plan/balance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace escalier::plan {
namespace {

using config::Recompute;

constexpr double never = std::numeric_limits<double>::infinity();

// Tries every layout with every recompute.
struct Brute {
    const BalanceProblem& problem;
    double slowest = never, squares = never;
    std::vector<std::int64_t> layers{};

    void run(int stage, std::int64_t left, double worst, double sum) {
        if (stage == problem.stages) {
            const double slack = 1e-12 * worst;
            if (left != 0 || worst > slowest + slack) return;
            if (worst < slowest - slack || sum < squares) {
                slowest = std::min(slowest, worst);
                squares = sum;
            }
            return;
        }
        for (std::int64_t n = 1; n <= left; ++n)
            for (const Recompute recompute : problem.choices[static_cast<std::size_t>(stage)]) {
                if (problem.fits && !problem.fits(stage, n, recompute)) continue;
                const double seconds = problem.seconds(stage, n, recompute);
                run(stage + 1, left - n, std::max(worst, seconds), sum + seconds * seconds);
            }
    }
};

TEST(Balance, EqualsBruteForce) {
    std::mt19937 random(7);
    const auto draw = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
    int infeasible = 0;
    for (int round = 0; round < 300; ++round) {
        const int stages = draw(1, 4), layers = draw(stages, 9);
        const double first = draw(0, 5), last = draw(0, 9), layer = draw(1, 3), attention = 0.25, full = 0.9;
        std::vector<double> limit;
        for (int stage = 0; stage < stages; ++stage) limit.push_back(draw(2, 24));
        BalanceProblem problem;
        problem.num_layers = layers;
        problem.stages = stages;
        problem.choices.assign(static_cast<std::size_t>(stages),
                               {Recompute::none, Recompute::attention, Recompute::full});
        problem.seconds = [&](int stage, std::int64_t n, Recompute recompute) {
            const double again = recompute == Recompute::full        ? full
                                 : recompute == Recompute::attention ? attention
                                                                     : 0;
            return static_cast<double>(n) * (layer + again) + (stage == 0 ? first : 0) +
                   (stage + 1 == stages ? last : 0);
        };
        problem.fits = [&](int stage, std::int64_t n, Recompute recompute) {
            const double each = recompute == Recompute::full        ? 1
                                : recompute == Recompute::attention ? 2.5
                                                                    : 4;
            return each * static_cast<double>(n) <= limit[static_cast<std::size_t>(stage)];
        };
        if (round % 3 == 0) problem.fits = nullptr;
        const Balance found = balance(problem);
        Brute brute{problem};
        brute.run(0, layers, 0, 0);
        if (brute.slowest == never) {
            EXPECT_TRUE(found.layers.empty());
            ++infeasible;
            continue;
        }
        ASSERT_EQ(found.layers.size(), static_cast<std::size_t>(stages));
        EXPECT_NEAR(found.slowest, brute.slowest, 1e-9);
        double worst = 0, squares = 0;
        std::int64_t sum = 0;
        for (int stage = 0; stage < stages; ++stage) {
            const auto s = static_cast<std::size_t>(stage);
            if (problem.fits) EXPECT_TRUE(problem.fits(stage, found.layers[s], found.recompute[s]));
            const double seconds = problem.seconds(stage, found.layers[s], found.recompute[s]);
            worst = std::max(worst, seconds);
            squares += seconds * seconds;
            sum += found.layers[s];
        }
        EXPECT_EQ(sum, layers);
        EXPECT_NEAR(worst, brute.slowest, 1e-9);
        EXPECT_NEAR(squares, brute.squares, 1e-6);
    }
    EXPECT_GT(infeasible, 5);
    EXPECT_LT(infeasible, 200);
}

TEST(Balance, EqualLayoutsPutMoreLayersBehind) {
    BalanceProblem problem;
    problem.num_layers = 7;
    problem.stages = 3;
    problem.choices.assign(3, {Recompute::none});
    problem.seconds = [](int, std::int64_t n, Recompute) { return static_cast<double>(n); };
    EXPECT_EQ(balance(problem).layers, (std::vector<std::int64_t>{2, 2, 3}));
}

}  // namespace
}  // namespace escalier::plan
