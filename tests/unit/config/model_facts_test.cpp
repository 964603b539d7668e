#include "config/model_facts.h"

#include <gtest/gtest.h>

#include "config/presets.h"
#include "config_test_support.h"

namespace escalier::config {
namespace {

ModelConfig preset(const std::string& name) {
    return testing::resolved("model: {preset: " + name + "}\n", 1).model;
}

TEST(ParameterCount, EqualsThePublishedOnes) {
    EXPECT_EQ(parameter_count(preset("gpt2-124m")), 124439808);
    EXPECT_EQ(parameter_count(preset("gpt2-350m")), 354823168);
    EXPECT_EQ(parameter_count(preset("gpt2-774m")), 774030080);
    EXPECT_EQ(parameter_count(preset("gpt2-1558m")), 1557611200);
    EXPECT_EQ(parameter_count(preset("llama3.2-1b")), 1235814400);
    EXPECT_EQ(parameter_count(preset("llama3.1-8b")), 8030261248);
    EXPECT_EQ(parameter_count(preset("llama3.1-70b")), 70553706496);
    EXPECT_EQ(parameter_count(preset("llama3.1-405b")), 405853388800);
    EXPECT_EQ(parameter_count(preset("qwen2.5-0.5b")), 494032768);
    EXPECT_EQ(parameter_count(preset("qwen3-0.6b")), 596049920);
}

// Summed by hand: (257 + 1024) * 64 + 4 * (12 * 64^2 + 13 * 64) + 2 * 64.
TEST(ParameterCount, Tiny) {
    EXPECT_EQ(parameter_count(preset("tiny")), 282048);
}

TEST(ParameterCount, TyingSavesOneTable) {
    ModelConfig model = preset("tiny");
    const std::int64_t tied = parameter_count(model);
    model.tie_embeddings = false;
    EXPECT_EQ(parameter_count(model) - tied, 257 * 64);
}

TEST(Presets, EveryOneResolves) {
    EXPECT_EQ(preset_names().size(), 12u);
    for (const std::string& name : preset_names()) EXPECT_GT(parameter_count(preset(name)), 0) << name;
}

TEST(PaddedVocab, IsTheNextMultiple) {
    EXPECT_EQ(padded_vocab(50257, 1), 50304);
    EXPECT_EQ(padded_vocab(50257, 4), 50688);
    EXPECT_EQ(padded_vocab(257, 1), 384);
    EXPECT_EQ(padded_vocab(256, 2), 256);
    EXPECT_EQ(padded_vocab(2, 1), 128);
}

TEST(FlopsPerToken, CountsMatricesHeadOnceAndHalfOfAttention) {
    const double expected = 6.0 * (12.0 * 12 * 768 * 768 + 50257.0 * 768) + 6.0 * 12 * 768 * 1024;
    EXPECT_EQ(flops_per_token(preset("gpt2-124m"), 1024), expected);
    ModelConfig untied = preset("gpt2-124m");
    untied.tie_embeddings = false;
    EXPECT_EQ(flops_per_token(untied, 1024), expected);
}

TEST(FlopsPerToken, WideHeadsCountAsTheyAre) {
    const ModelConfig qwen = preset("qwen3-0.6b");  // 16 heads of 128 over a hidden size of 1024
    const double matrices = 28.0 * (1024.0 * (2 * 2048 + 2 * 1024) + 3.0 * 1024 * 3072) + 151936.0 * 1024;
    EXPECT_EQ(flops_per_token(qwen, 512), 6.0 * matrices + 6.0 * 28 * 2048 * 512);
}

}  // namespace
}  // namespace escalier::config
