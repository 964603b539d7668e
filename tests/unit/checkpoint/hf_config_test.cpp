#include "checkpoint/hf_config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "config/model_facts.h"
#include "core/error.h"

namespace escalier::checkpoint {
namespace {

using nlohmann::json;

const std::string path = "m/config.json";

json gpt2() {
    return {{"model_type", "gpt2"}, {"architectures", {"GPT2LMHeadModel"}},
            {"vocab_size", 64},     {"n_positions", 16},
            {"n_embd", 32},         {"n_layer", 2},
            {"n_head", 4},          {"embd_pdrop", 0},
            {"resid_pdrop", 0},     {"attn_pdrop", 0}};
}
json llama(const std::string& type = "llama") {
    return {{"model_type", type},
            {"vocab_size", 64},
            {"hidden_size", 32},
            {"intermediate_size", 48},
            {"num_hidden_layers", 2},
            {"num_attention_heads", 4},
            {"num_key_value_heads", 2},
            {"head_dim", 8},
            {"rms_norm_eps", 1e-5},
            {"rope_theta", 500000.0},
            {"hidden_act", "silu"},
            {"tie_word_embeddings", false},
            {"max_position_embeddings", 128}};
}
const json llama3 = {{"rope_type", "llama3"},
                     {"factor", 8.0},
                     {"low_freq_factor", 1.0},
                     {"high_freq_factor", 4.0},
                     {"original_max_position_embeddings", 8192}};

json with(json root, const std::string& key, const json& value) {
    root[key] = value;
    return root;
}
json without(json root, const std::string& key) {
    root.erase(key);
    return root;
}

config::ModelConfig model_of(const json& root) {
    return parse_hf_config(root.dump(), path).model;
}

// The message of the refusal, or "".
std::string text_refusal(const std::string& text, const std::set<std::string>& ignored = {}) {
    try {
        parse_hf_config(text, path, ignored);
    } catch (const DataError& error) {
        return error.what();
    }
    return "";
}
std::string refusal(const json& root) {
    return text_refusal(root.dump());
}

// Refused with a message that names the file, the key and its value.
void expect_refused(const json& root, const std::string& key, const std::string& value) {
    const std::string message = refusal(root);
    EXPECT_EQ(message.find(path + ": "), 0u) << "'" << message << "' for " << root.dump();
    EXPECT_NE(message.find("'" + key + "' is " + value), std::string::npos)
        << "'" << message << "' for " << root.dump();
}

TEST(HfConfig, EveryModelKeyReachesTheModel) {
    const config::ModelConfig base = model_of(llama());
    EXPECT_EQ(base.arch, config::Arch::llama);
    EXPECT_EQ(base.vocab_size, 64);
    EXPECT_EQ(base.hidden_size, 32);
    EXPECT_EQ(base.ffn_size, 48);
    EXPECT_EQ(base.num_layers, 2);
    EXPECT_EQ(base.num_heads, 4);
    EXPECT_EQ(base.num_kv_heads, 2);
    EXPECT_EQ(base.head_dim, 8);
    EXPECT_EQ(base.norm_eps, 1e-5);
    EXPECT_EQ(base.rope.theta, 500000.0);
    EXPECT_FALSE(base.rope.scaling || base.tie_embeddings || base.qkv_bias || base.qk_norm);

    const auto changed = [&](const std::string& key, const json& value) {
        return model_of(with(llama(), key, value));
    };
    EXPECT_EQ(changed("vocab_size", 65).vocab_size, 65);
    EXPECT_EQ(changed("hidden_size", 40).hidden_size, 40);
    EXPECT_EQ(changed("intermediate_size", 50).ffn_size, 50);
    EXPECT_EQ(changed("num_hidden_layers", 3).num_layers, 3);
    EXPECT_EQ(changed("num_attention_heads", 8).num_heads, 8);
    EXPECT_EQ(changed("num_key_value_heads", 1).num_kv_heads, 1);
    EXPECT_EQ(changed("head_dim", 12).head_dim, 12);
    EXPECT_EQ(changed("rms_norm_eps", 1e-3).norm_eps, 1e-3);
    EXPECT_EQ(changed("rope_theta", 10000).rope.theta, 10000.0);
    EXPECT_TRUE(changed("tie_word_embeddings", true).tie_embeddings);
    EXPECT_TRUE(model_of(llama("qwen2")).qkv_bias);
    EXPECT_TRUE(model_of(llama("qwen3")).qk_norm);

    const config::ModelConfig of_gpt2 = model_of(gpt2());
    EXPECT_EQ(of_gpt2.arch, config::Arch::gpt2);
    EXPECT_EQ(of_gpt2.max_positions, 16);
    EXPECT_EQ(of_gpt2.ffn_size, 128);
    EXPECT_EQ(of_gpt2.dropout, 0.0);
    EXPECT_TRUE(of_gpt2.tie_embeddings);
    EXPECT_EQ(model_of(with(gpt2(), "n_inner", 48)).ffn_size, 48);
    EXPECT_EQ(model_of(with(gpt2(), "layer_norm_epsilon", 1e-3)).norm_eps, 1e-3);
    EXPECT_FALSE(model_of(with(gpt2(), "tie_word_embeddings", false)).tie_embeddings);
    EXPECT_EQ(model_of(with(without(gpt2(), "n_embd"), "hidden_size", 64)).hidden_size, 64);
}

TEST(HfConfig, AbsentKeysHaveTheDefaultsOfTransformers) {
    const config::ModelConfig model = model_of({{"model_type", "llama"}});
    EXPECT_EQ(config::parameter_count(model), 6738415616);  // Llama 2 7B
    EXPECT_EQ(model.norm_eps, 1e-6);
    EXPECT_EQ(model.rope.theta, 10000.0);
    const config::ModelConfig small = model_of({{"model_type", "gpt2"}});
    EXPECT_EQ(config::parameter_count(small), 124439808);
    EXPECT_EQ(small.norm_eps, 1e-5);
    EXPECT_EQ(small.dropout, 0.1);
    const config::ModelConfig qwen3 = model_of({{"model_type", "qwen3"}});
    EXPECT_EQ(qwen3.head_dim, 128);
    EXPECT_EQ(qwen3.num_kv_heads, 32);
    EXPECT_EQ(qwen3.vocab_size, 151936);
    EXPECT_EQ(qwen3.ffn_size, 22016);
    EXPECT_EQ(model_of(without(llama(), "num_key_value_heads")).num_kv_heads, 4);
    EXPECT_EQ(model_of(with(llama("qwen2"), "num_key_value_heads", nullptr)).num_kv_heads, 4);
    EXPECT_EQ(model_of(with(llama(), "head_dim", nullptr)).head_dim, 8);
    EXPECT_EQ(parse_hf_config(llama().dump(), path).max_positions, 128);
}

// Fields of the published config.json files.
TEST(HfConfig, ParameterCountsOfRealModels) {
    const auto count = [](json root) { return config::parameter_count(model_of(root)); };
    EXPECT_EQ(count({{"model_type", "gpt2"}, {"n_layer", 48}, {"n_embd", 1600}, {"n_head", 25}}), 1557611200);
    const json llama31 = {{"model_type", "llama"},    {"vocab_size", 128256},
                          {"hidden_size", 4096},      {"intermediate_size", 14336},
                          {"num_hidden_layers", 32},  {"num_attention_heads", 32},
                          {"num_key_value_heads", 8}, {"rope_theta", 500000.0},
                          {"rope_scaling", llama3},   {"max_position_embeddings", 131072}};
    EXPECT_EQ(count(llama31), 8030261248);
    EXPECT_EQ(count({{"model_type", "llama"},
                     {"vocab_size", 128256},
                     {"hidden_size", 2048},
                     {"intermediate_size", 8192},
                     {"num_hidden_layers", 16},
                     {"num_attention_heads", 32},
                     {"num_key_value_heads", 8},
                     {"head_dim", 64},
                     {"tie_word_embeddings", true}}),
              1235814400);
    EXPECT_EQ(count({{"model_type", "qwen2"},
                     {"vocab_size", 151936},
                     {"hidden_size", 896},
                     {"intermediate_size", 4864},
                     {"num_hidden_layers", 24},
                     {"num_attention_heads", 14},
                     {"num_key_value_heads", 2},
                     {"max_window_layers", 21},
                     {"tie_word_embeddings", true},
                     {"sliding_window", 32768},
                     {"use_sliding_window", false}}),
              494032768);
    EXPECT_EQ(count({{"model_type", "qwen3"},
                     {"vocab_size", 151936},
                     {"hidden_size", 1024},
                     {"intermediate_size", 3072},
                     {"num_hidden_layers", 28},
                     {"num_attention_heads", 16},
                     {"num_key_value_heads", 8},
                     {"head_dim", 128},
                     {"tie_word_embeddings", true},
                     {"sliding_window", nullptr},
                     {"max_window_layers", 28}}),
              596049920);
}

TEST(HfConfig, RefusesWhatEscalierDoesNotCompute) {
    expect_refused(with(llama(), "hidden_act", "gelu"), "hidden_act", "\"gelu\"");
    expect_refused(with(llama(), "attention_bias", true), "attention_bias", "true");
    expect_refused(with(llama("qwen3"), "attention_bias", true), "attention_bias", "true");
    expect_refused(with(llama(), "mlp_bias", true), "mlp_bias", "true");
    expect_refused(with(llama(), "attention_dropout", 0.1), "attention_dropout", "0.1");
    expect_refused(with(llama(), "partial_rotary_factor", 0.5), "partial_rotary_factor", "0.5");
    expect_refused(with(llama(), "quantization_config", {{"bits", 4}}), "quantization_config",
                   "{\"bits\":4}");
    expect_refused(with(llama(), "auto_map", {{"AutoModel", "x.M"}}), "auto_map", "{");
    expect_refused(with(llama(), "is_encoder_decoder", true), "is_encoder_decoder", "true");
    expect_refused(with(llama(), "model_type", "mistral"), "model_type", "\"mistral\"");
    expect_refused(with(llama(), "architectures", {"LlamaForSequenceClassification"}), "architectures", "[");
    expect_refused(with(gpt2(), "activation_function", "gelu"), "activation_function", "\"gelu\"");
    expect_refused(with(gpt2(), "activation_function", "relu"), "activation_function", "\"relu\"");
    expect_refused(with(gpt2(), "scale_attn_weights", false), "scale_attn_weights", "false");
    expect_refused(with(gpt2(), "scale_attn_weights", nullptr), "scale_attn_weights", "null");
    expect_refused(with(gpt2(), "scale_attn_by_inverse_layer_idx", true), "scale_attn_by_inverse_layer_idx",
                   "true");
    expect_refused(with(gpt2(), "add_cross_attention", true), "add_cross_attention", "true");
    expect_refused(with(gpt2(), "embd_pdrop", 0.1), "embd_pdrop", "0.1");
    expect_refused(with(gpt2(), "attn_pdrop", 0.1), "attn_pdrop", "0.1");
    expect_refused(with(gpt2(), "n_ctx", 32), "n_ctx", "32");
    expect_refused(with(gpt2(), "hidden_size", 64), "n_embd", "32");
}

TEST(HfConfig, SlidingWindowsAreRefusedWhereALayerHasOne) {
    const json window = with(with(llama("qwen2"), "use_sliding_window", true), "max_window_layers", 1);
    expect_refused(window, "use_sliding_window", "true");
    expect_refused(with(window, "max_window_layers", 0), "use_sliding_window", "true");
    EXPECT_EQ(refusal(with(window, "max_window_layers", 2)), "");
    EXPECT_EQ(refusal(without(window, "max_window_layers")), "");  // 28 of transformers
    EXPECT_EQ(refusal(with(window, "sliding_window", nullptr)), "");
    EXPECT_EQ(refusal(with(window, "use_sliding_window", false)), "");
    EXPECT_EQ(refusal(with(llama("qwen3"), "layer_types", {"full_attention", "full_attention"})), "");
    expect_refused(with(llama("qwen3"), "layer_types", {"full_attention", "sliding_attention"}),
                   "layer_types", "[\"full_attention\"");
    expect_refused(with(llama("qwen3"), "layer_types", {"full_attention"}), "layer_types",
                   "[\"full_attention\"]");
    expect_refused(with(llama(), "sliding_window", 4096), "sliding_window", "4096");
}

TEST(HfConfig, RopeInBothSpellings) {
    const auto rope = [](const json& root) { return model_of(root).rope; };
    const config::RopeScaling want{"llama3", 8.0, 1.0, 4.0, 8192};
    EXPECT_EQ(rope(with(llama(), "rope_scaling", llama3)).scaling, want);
    EXPECT_EQ(
        rope(with(llama(), "rope_scaling", with(without(llama3, "rope_type"), "type", "llama3"))).scaling,
        want);
    const json bare = without(llama(), "rope_theta");
    const config::RopeConfig v5 = rope(with(bare, "rope_parameters", with(llama3, "rope_theta", 7000.0)));
    EXPECT_EQ(v5.scaling, want);
    EXPECT_EQ(v5.theta, 7000.0);
    EXPECT_EQ(rope(with(bare, "rope_parameters", {{"rope_type", "default"}, {"rope_theta", 9.0}})).theta,
              9.0);
    EXPECT_FALSE(rope(with(llama(), "rope_scaling", {{"type", "default"}})).scaling);
    EXPECT_FALSE(rope(with(llama(), "rope_scaling", nullptr)).scaling);
    // Without the length before the stretch: the context, as transformers.
    EXPECT_EQ(rope(with(llama(), "rope_scaling", without(llama3, "original_max_position_embeddings")))
                  .scaling->original_max_positions,
              128);
    const json both = with(with(llama(), "rope_scaling", llama3), "rope_parameters", llama3);
    EXPECT_EQ(rope(both).scaling, want);
}

TEST(HfConfig, RefusesOtherRotaryPositions) {
    for (const char* type : {"linear", "dynamic", "yarn", "longrope", "mrope"}) {
        const json scaling = {{"rope_type", type}, {"factor", 2.0}};
        expect_refused(with(llama(), "rope_scaling", scaling), "rope_scaling.rope_type", json(type).dump());
        expect_refused(with(llama(), "rope_parameters", scaling), "rope_parameters.rope_type",
                       json(type).dump());
        expect_refused(with(llama(), "rope_scaling", {{"type", type}}), "rope_scaling.type",
                       json(type).dump());
    }
    expect_refused(with(llama(), "rope_scaling", with(llama3, "attention_factor", 2)),
                   "rope_scaling.attention_factor", "2");
    expect_refused(with(llama(), "rope_scaling", {{"type", "default"}, {"factor", 2.0}}),
                   "rope_scaling.factor", "2.0");
    expect_refused(with(llama(), "rope_parameters", {{"full_attention", llama3}}),
                   "rope_parameters.full_attention", "{");
    expect_refused(with(llama(), "rope_parameters", with(llama3, "partial_rotary_factor", 0.5)),
                   "rope_parameters.partial_rotary_factor", "0.5");
    expect_refused(with(llama(), "rope_scaling", 2.0), "rope_scaling", "2.0");
    expect_refused(with(llama(), "rope_parameters", {{"rope_theta", 1.0}}), "rope_theta", "500000");
    expect_refused(
        with(with(llama(), "rope_scaling", llama3), "rope_parameters", with(llama3, "factor", 4.0)),
        "rope_scaling", "{");
    expect_refused(with(with(llama(), "rope_scaling", llama3), "original_max_position_embeddings", 64),
                   "original_max_position_embeddings", "64");
    EXPECT_NE(refusal(with(llama(), "rope_scaling", without(llama3, "factor")))
                  .find("'rope_scaling.factor' is missing"),
              std::string::npos);
    // Frequencies that no job spec may have.
    EXPECT_NE(refusal(with(llama(), "rope_scaling", with(llama3, "factor", 0.5))).find("factor"),
              std::string::npos);
}

TEST(HfConfig, UnknownKeysAreRefusedByName) {
    expect_refused(with(llama(), "attention_sinks", true), "attention_sinks", "true");
    EXPECT_NE(refusal(with(llama(), "attention_sinks", true)).find("--ignore-key attention_sinks"),
              std::string::npos);
    EXPECT_EQ(text_refusal(with(llama(), "attention_sinks", true).dump(), {"attention_sinks"}), "");
    EXPECT_EQ(refusal(with(llama(), "attention_sinks", nullptr)), "");
    EXPECT_EQ(refusal(with(llama(), "_name_or_path", "a/b")), "");
    EXPECT_EQ(refusal(with(with(llama(), "eos_token_id", {1, 2}), "torch_dtype", "float16")), "");
    EXPECT_NE(text_refusal(llama().dump(), {"head_dim"}).find("--ignore-key head_dim"), std::string::npos);
    EXPECT_NE(text_refusal(with(llama(), "mlp_bias", true).dump(), {"mlp_bias"}), "");
    EXPECT_EQ(parse_hf_config(with(llama(), "dtype", "bfloat16").dump(), path).dtype, "bfloat16");
    EXPECT_EQ(parse_hf_config(with(llama(), "torch_dtype", "float16").dump(), path).dtype, "float16");
}

TEST(HfConfig, WrongValuesAndTexts) {
    expect_refused(with(llama(), "hidden_size", "32"), "hidden_size", "\"32\"");
    expect_refused(with(llama(), "hidden_size", 32.0), "hidden_size", "32.0");
    expect_refused(with(llama(), "num_hidden_layers", 0), "num_hidden_layers", "0");
    expect_refused(with(llama(), "num_hidden_layers", -1), "num_hidden_layers", "-1");
    expect_refused(with(llama(), "vocab_size", 5000000000), "vocab_size", "5000000000");
    expect_refused(with(llama(), "vocab_size", nullptr), "vocab_size", "null");
    expect_refused(with(llama(), "rms_norm_eps", nullptr), "rms_norm_eps", "null");
    expect_refused(with(llama(), "tie_word_embeddings", 1), "tie_word_embeddings", "1");
    for (const json& root : {with(llama(), "num_key_value_heads", 3), with(llama(), "head_dim", 7),
                             with(llama(), "num_hidden_layers", 100000), with(gpt2(), "n_head", 5)})
        EXPECT_NE(refusal(root).find(path + ": the model is outside of what Escalier trains: "),
                  std::string::npos)
            << refusal(root);
    EXPECT_NE(text_refusal(R"({"model_type": "llama", "vocab_size": 1, "vocab_size": 2})")
                  .find("names 'vocab_size' twice"),
              std::string::npos);
    EXPECT_NE(text_refusal(std::string(100000, '[')).find("nested"), std::string::npos);
    EXPECT_NE(text_refusal("[]").find("not a JSON object"), std::string::npos);
    EXPECT_NE(text_refusal("{}").find("'model_type' is missing"), std::string::npos);
    EXPECT_NE(text_refusal("").find("is not valid JSON"), std::string::npos);
}

TEST(HfConfig, DropoutOfGpt2) {
    const json root = with(with(with(gpt2(), "embd_pdrop", 0.2), "resid_pdrop", 0.2), "attn_pdrop", 0.2);
    const HfConfig config = parse_hf_config(root.dump(), path);
    EXPECT_EQ(config.model.dropout, 0.2);
    ASSERT_EQ(config.warnings.size(), 1u);
    EXPECT_EQ(config.warnings[0].find("'attn_pdrop' is 0.2"), 0u);
    EXPECT_TRUE(parse_hf_config(with(root, "attn_pdrop", 0).dump(), path).warnings.empty());
}

TEST(HfConfig, WhatIsWrittenReadsBack) {
    for (json root :
         {gpt2(), with(gpt2(), "n_inner", 48), with(gpt2(), "tie_word_embeddings", false), llama(),
          with(llama(), "rope_scaling", llama3), llama("qwen2"), with(llama("qwen2"), "head_dim", 12),
          with(llama("qwen3"), "head_dim", 12), with(llama("qwen3"), "tie_word_embeddings", true)}) {
        root["bos_token_id"] = 5;
        root["pad_token_id"] = 7;
        const config::ModelConfig model = model_of(root);
        const std::string text = hf_config_text(model, "bfloat16", 12, root.dump());
        const HfConfig back = parse_hf_config(text, path);
        EXPECT_EQ(back.model, model) << text;
        EXPECT_EQ(back.dtype, "bfloat16");
        EXPECT_TRUE(back.warnings.empty());
        const json written = json::parse(text);
        EXPECT_EQ(written["model_type"], root["model_type"]);
        EXPECT_EQ(written["bos_token_id"], 5);
        EXPECT_EQ(written["pad_token_id"], 7);
        EXPECT_EQ(parse_hf_config(hf_config_text(model, "float32", 12, ""), path).model, model);
        // The two spellings of rope are each enough.
        for (const char* key : {"rope_parameters", "rope_scaling"}) {
            json one = written;
            one.erase(key);
            if (key == std::string("rope_scaling")) one.erase("rope_theta");
            if (root["model_type"] != "gpt2") {
                EXPECT_EQ(model_of(one), model) << one.dump();
            }
        }
    }
}

TEST(HfConfig, TheContextIsTheModels) {
    const config::ModelConfig model = model_of(llama());
    EXPECT_EQ(model.max_positions, 128);
    EXPECT_EQ(json::parse(hf_config_text(model, "float32", 64, ""))["max_position_embeddings"], 128);
    config::ModelConfig shorter = model;
    shorter.max_positions = 96;
    EXPECT_EQ(json::parse(hf_config_text(shorter, "float32", 64, llama().dump()))["max_position_embeddings"],
              96);
    EXPECT_EQ(model_of(with(llama(), "max_position_embeddings", 2147483647)).max_positions, 1 << 24);
}

TEST(HfConfig, TheContextOfAModelThatDoesNotSayIsTheLongest) {
    const auto length = [](const json& root, std::int64_t seq_len, const std::string& imported) {
        config::ModelConfig model = model_of(root);
        model.max_positions = 0;
        const json written = json::parse(hf_config_text(model, "float32", seq_len, imported));
        return written["max_position_embeddings"].get<std::int64_t>();
    };
    EXPECT_EQ(length(llama(), 64, ""), 64);
    EXPECT_EQ(length(llama(), 64, llama().dump()), 128);
    EXPECT_EQ(length(llama(), 256, llama().dump()), 256);
    EXPECT_EQ(length(with(llama(), "rope_scaling", llama3), 64, ""), 65536);
}

TEST(HfConfig, NoFamilyHasBiasesAndNorms) {
    config::ModelConfig model = model_of(llama("qwen2"));
    model.qk_norm = true;
    EXPECT_THROW(hf_config_text(model, "float32", 16, ""), DataError);
    EXPECT_THROW(hf_config_text(model_of(llama()), "float32", 16, "{"), DataError);
}

}  // namespace
}  // namespace escalier::checkpoint
