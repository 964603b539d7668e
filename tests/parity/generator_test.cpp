// Text from a weight file, against greedy continuations that PyTorch computed in double precision.
#include "train/generator.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "checkpoint/weights.h"
#include "config/validate.h"
#include "tests/harness/multirank_main.h"
#include "train/assembly.h"

namespace escalier::train {
namespace {

const std::string fixtures = GOLDEN_DIR "/pytorch/";

// The fixture's weights in a file as `train --save-weights` writes it.
std::string weight_file(const std::string& model) {
    const std::string folder = fixtures + model + "/";
    const config::JobSpec spec =
        config::load_resolved(config::read_job_file(folder + "job.yaml"), {"run.device=cpu"}, 1).spec;
    Assembly assembly(spec, test::env(), test::env().world(), {});
    checkpoint::load_weights(checkpoint::SafetensorsReader(folder + "weights.safetensors"),
                             assembly.model().parameters(), assembly.groups(), *assembly.backend().device);
    const std::string path = ::testing::TempDir() + "generator_" + std::to_string(getpid()) + ".safetensors";
    checkpoint::save_weights(path, assembly.model().parameters(), assembly.groups(),
                             *assembly.backend().device, weight_metadata(spec));
    return path;
}

TEST(Generator, GreedyTextEqualsTheDoublePrecisionReference) {
    for (const char* model : {"gpt2", "llama", "qwen2", "qwen3"}) {
        SCOPED_TRACE(model);
        const std::string path = weight_file(model);
        Generator generator(path, test::env(), 2);
        std::remove(path.c_str());
        nlohmann::json expected;
        std::ifstream(fixtures + model + "/expected.json") >> expected;
        std::vector<std::int32_t> ids = expected["greedy"]["prompt"], reported;
        const std::vector<std::int32_t> continuation = expected["greedy"]["tokens"];
        ASSERT_GT(continuation.size(), 10u);
        SamplingOptions greedy;
        greedy.temperature = 0;
        generator.generate(ids, static_cast<std::int64_t>(continuation.size()), greedy,
                           [&](std::int32_t token) { reported.push_back(token); });
        EXPECT_EQ(reported, continuation);
    }
}

TEST(Generator, AFileWithoutDescriptionIsRefusedByName) {
    const std::string path = fixtures + "gpt2/weights.safetensors";
    try {
        Generator generator(path, test::env(), 1);
        FAIL() << "accepted";
    } catch (const DataError& error) {
        EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    }
}

TEST(SampleToken, DrawsFollowTheProbabilities) {
    const float logits[] = {0.0f, 1.0f, 2.0f, -1e30f};
    SamplingOptions options;
    options.temperature = 1;
    int counts[4] = {};
    constexpr int draws = 20000;
    for (int position = 0; position < draws; ++position) ++counts[sample_token(logits, 4, options, position)];
    const double sum = 1 + std::exp(1.0) + std::exp(2.0);
    for (int token = 0; token < 3; ++token)
        EXPECT_NEAR(counts[token], draws * std::exp(logits[token]) / sum, 4 * std::sqrt(draws) / 2);
    EXPECT_EQ(counts[3], 0);
}

TEST(SampleToken, TopKAndGreedyKeepTheBest) {
    const float logits[] = {1.0f, 3.0f, 2.9f, 3.0f, 0.0f};
    SamplingOptions options;
    options.temperature = 5;
    options.top_k = 2;
    std::set<std::int32_t> seen;
    for (int position = 0; position < 200; ++position)
        seen.insert(sample_token(logits, 5, options, position));
    EXPECT_EQ(seen, (std::set<std::int32_t>{1, 3}));
    options.temperature = 0;
    EXPECT_EQ(sample_token(logits, 5, options, 0), 1);
}

TEST(SampleToken, TheSeedDecides) {
    const float logits[] = {0.0f, 0.0f, 0.0f, 0.0f};
    SamplingOptions a, b;
    b.seed = 99;
    int same = 0;
    for (int position = 0; position < 100; ++position) {
        EXPECT_EQ(sample_token(logits, 4, a, position), sample_token(logits, 4, a, position));
        same += sample_token(logits, 4, a, position) == sample_token(logits, 4, b, position);
    }
    EXPECT_LT(same, 60);
}

}  // namespace
}  // namespace escalier::train
