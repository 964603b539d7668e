#include "train/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "core/error.h"

namespace escalier::train {
namespace {

std::map<std::int32_t, int> counts(const std::vector<float>& logits, const SamplingOptions& options,
                                   int draws) {
    std::map<std::int32_t, int> out;
    for (int position = 0; position < draws; ++position) ++out[sample_token(logits, options, position)];
    return out;
}

std::set<std::int32_t> drawn(const std::vector<float>& logits, const SamplingOptions& options) {
    std::set<std::int32_t> ids;
    for (const auto& [id, count] : counts(logits, options, 2000)) ids.insert(id);
    return ids;
}

SamplingOptions plain() {
    SamplingOptions options;
    options.temperature = 1;
    return options;
}

// Logits of these probabilities.
std::vector<float> logits_of(const std::vector<double>& probabilities) {
    std::vector<float> logits;
    for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
    return logits;
}

using Ids = std::set<std::int32_t>;

// chi-square of the counts against probabilities over the kept ids.
void expect_distribution(const std::vector<double>& probabilities, const SamplingOptions& options,
                         const Ids& kept) {
    constexpr int draws = 40000;
    const std::map<std::int32_t, int> found = counts(logits_of(probabilities), options, draws);
    double sum = 0, chi_square = 0;
    for (const std::int32_t id : kept)
        sum += std::pow(probabilities[static_cast<std::size_t>(id)], 1 / options.temperature);
    int all = 0;
    for (const std::int32_t id : kept) {
        const double expected =
            draws * std::pow(probabilities[static_cast<std::size_t>(id)], 1 / options.temperature) / sum;
        const int count = found.contains(id) ? found.at(id) : 0;
        chi_square += (count - expected) * (count - expected) / expected;
        all += count;
    }
    EXPECT_EQ(all, draws) << "an id was drawn that should have been left out";
    // Mean k - 1, standard deviation sqrt(2 (k - 1)); five of them.
    const double freedom = static_cast<double>(kept.size()) - 1;
    EXPECT_LT(chi_square, freedom + 5 * std::sqrt(2 * freedom) + 1e-9);
}

const std::vector<double> five = {0.05, 0.4, 0.1, 0.3, 0.15};

TEST(Sampling, DrawsFollowTheProbabilities) {
    expect_distribution(five, plain(), {0, 1, 2, 3, 4});
    SamplingOptions warm = plain(), cold = plain();
    warm.temperature = 2.5;
    cold.temperature = 0.5;
    expect_distribution(five, warm, {0, 1, 2, 3, 4});
    expect_distribution(five, cold, {0, 1, 2, 3, 4});
}

TEST(Sampling, TopKKeepsTheBest) {
    SamplingOptions options = plain();
    options.top_k = 3;
    expect_distribution(five, options, {1, 3, 4});
    options.top_k = 5;
    expect_distribution(five, options, {0, 1, 2, 3, 4});
    options.top_k = 1000000;
    expect_distribution(five, options, {0, 1, 2, 3, 4});
}

TEST(Sampling, TheNucleusIsTheFewestThatReachTheShare) {
    // Ranked: 1 (0.4), 3 (0.7), 4 (0.85), 2 (0.95), 0 (1).
    const std::pair<double, Ids> cases[] = {
        {1e-9, {1}},       {0.39, {1}},         {0.41, {1, 3}},          {0.69, {1, 3}},
        {0.71, {1, 3, 4}}, {0.9, {1, 2, 3, 4}}, {0.96, {0, 1, 2, 3, 4}}, {1.0, {0, 1, 2, 3, 4}}};
    for (const auto& [share, kept] : cases) {
        SCOPED_TRACE(share);
        SamplingOptions options = plain();
        options.top_p = share;
        expect_distribution(five, options, kept);
    }
}

// Powers of two, so that the shares are exact: 1/2 is reached by the first alone.
TEST(Sampling, AShareThatIsReachedExactlyNeedsNoMore) {
    const std::vector<float> logits = {0.0f, 0.0f, 0.0f, 0.0f};
    SamplingOptions options = plain();
    for (const auto& [share, kept] : {std::pair<double, Ids>{0.25, {0}},
                                      {0.26, {0, 1}},
                                      {0.5, {0, 1}},
                                      {0.75, {0, 1, 2}},
                                      {0.76, {0, 1, 2, 3}}}) {
        options.top_p = share;
        EXPECT_EQ(drawn(logits, options), kept) << share;
    }
}

TEST(Sampling, TheNucleusIsOfWhatTemperatureAndTopKLeave) {
    SamplingOptions options = plain();
    options.top_k = 2;
    options.top_p = 0.57;  // 0.4 of 0.7 is 0.571
    EXPECT_EQ(drawn(logits_of(five), options), (Ids{1}));
    options.top_p = 0.58;
    expect_distribution(five, options, {1, 3});
    options.top_k = 0;
    options.temperature = 0.25;  // 0.4 to the fourth has 0.745 of the sum
    options.top_p = 0.74;
    EXPECT_EQ(drawn(logits_of(five), options), (Ids{1}));
    options.top_p = 0.75;
    EXPECT_EQ(drawn(logits_of(five), options), (Ids{1, 3}));
}

TEST(Sampling, AmongEqualsTheLowerIdComesFirst) {
    const std::vector<float> logits = {1.0f, 3.0f, 2.9f, 3.0f, 3.0f};
    SamplingOptions options = plain();
    options.temperature = 5;
    options.top_k = 2;
    EXPECT_EQ(drawn(logits, options), (Ids{1, 3}));
    options.top_k = 1;
    EXPECT_EQ(drawn(logits, options), (Ids{1}));
    options.top_k = 0;
    options.top_p = 0.01;
    EXPECT_EQ(drawn(logits, options), (Ids{1}));
    options.top_p = 1;
    options.temperature = 0;
    EXPECT_EQ(drawn(logits, options), (Ids{1}));
}

TEST(Sampling, GreedyIsTopKOfOneAndTheLimitOfLowTemperature) {
    const std::vector<float> logits = {-2.0f, 0.5f, 7.0f, 6.99f, -1e30f};
    SamplingOptions options = plain();
    options.temperature = 0;
    EXPECT_EQ(drawn(logits, options), (Ids{2}));
    options.temperature = 3;
    options.top_k = 1;
    EXPECT_EQ(drawn(logits, options), (Ids{2}));
    options.top_k = 0;
    for (const double temperature : {1e-6, 1e-300, std::numeric_limits<double>::denorm_min()}) {
        options.temperature = temperature;
        EXPECT_EQ(drawn(logits, options), (Ids{2})) << temperature;
    }
}

TEST(Sampling, AHugeTemperatureMakesAllEqual) {
    SamplingOptions options = plain();
    options.temperature = std::numeric_limits<double>::max();
    const std::map<std::int32_t, int> found = counts({-50.0f, 0.0f, 50.0f, 3e38f}, options, 8000);
    for (std::int32_t id = 0; id < 4; ++id) EXPECT_NEAR(found.at(id), 2000, 5 * std::sqrt(2000.0)) << id;
}

TEST(Sampling, ProbabilitiesThatVanishAreNeverDrawn) {
    EXPECT_EQ(drawn({0.0f, -2000.0f, 0.0f, -3e38f}, plain()), (Ids{0, 2}));
}

TEST(Sampling, OneChoiceIsTaken) {
    EXPECT_EQ(drawn({-3.5f}, plain()), (Ids{0}));
}

TEST(Sampling, SeedAndPositionDecide) {
    const std::vector<float> logits(4, 0.0f);
    SamplingOptions a = plain(), b = plain();
    b.seed = 99;
    int same_seed = 0, neighbours = 0;
    for (int position = 0; position < 400; ++position) {
        const std::int32_t token = sample_token(logits, a, position);
        EXPECT_EQ(token, sample_token(logits, a, position));
        same_seed += token == sample_token(logits, b, position);
        neighbours += token == sample_token(logits, a, position + 1);
    }
    EXPECT_LT(same_seed, 160);
    EXPECT_LT(neighbours, 160);
}

TEST(Sampling, ALogitThatIsNoNumberIsRefusedByName) {
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY})
        for (const double temperature : {0.0, 1.0}) {
            SamplingOptions options = plain();
            options.temperature = temperature;
            try {
                sample_token(std::vector<float>{0.0f, 1.0f, bad}, options, 17);
                ADD_FAILURE() << "accepted " << bad;
            } catch (const NumericError& error) {
                const std::string message = error.what();
                EXPECT_NE(message.find("token 17"), std::string::npos) << message;
                EXPECT_NE(message.find("id 2"), std::string::npos) << message;
            }
        }
}

}  // namespace
}  // namespace escalier::train
