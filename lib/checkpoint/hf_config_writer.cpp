#include <algorithm>
#include <cmath>

#include "checkpoint/hf_config.h"
#include "checkpoint/hf_config_keys.h"
#include "checkpoint/hf_rope.h"
#include "checkpoint/strict_json.h"
#include "config/model_facts.h"
#include "core/error.h"

namespace escalier::checkpoint {

namespace {

using nlohmann::ordered_json;

const HfFamily& family_of(const config::ModelConfig& model) {
    if (model.qk_norm && model.qkv_bias)
        throw DataError(
            "the model has model.qkv_bias and model.qk_norm, and no family of transformers has both: Qwen2 "
            "has the biases, Qwen3 the norms. It cannot be exported.");
    const std::string type = model.arch == config::Arch::gpt2 ? "gpt2"
                             : model.qk_norm                  ? "qwen3"
                             : model.qkv_bias                 ? "qwen2"
                                                              : "llama";
    const auto& families = hf_families();
    return *std::find_if(families.begin(), families.end(),
                         [&](const HfFamily& family) { return family.model_type == type; });
}

void write_gpt2(const config::ModelConfig& model, ordered_json& root) {
    root["n_positions"] = model.max_positions;
    root["n_ctx"] = model.max_positions;
    root["n_embd"] = model.hidden_size;
    root["n_layer"] = model.num_layers;
    root["n_head"] = model.num_heads;
    root["n_inner"] = model.ffn_size == 4 * model.hidden_size ? ordered_json() : ordered_json(model.ffn_size);
    root["activation_function"] = "gelu_new";
    root["layer_norm_epsilon"] = model.norm_eps;
    root["embd_pdrop"] = model.dropout;
    root["resid_pdrop"] = model.dropout;
    root["attn_pdrop"] = 0.0;
    root["scale_attn_weights"] = true;
}

// The longest text that a model of rotary positions is made for, in tokens.
std::int64_t positions_of(const config::ModelConfig& model, std::int64_t seq_len) {
    if (model.max_positions > 0) return model.max_positions;
    const auto& scaling = model.rope.scaling;
    if (!scaling) return seq_len;
    const double stretched = scaling->factor * static_cast<double>(scaling->original_max_positions);
    return std::max(seq_len, static_cast<std::int64_t>(std::ceil(stretched)));
}

void write_llama(const config::ModelConfig& model, const std::string& type, std::int64_t seq_len,
                 ordered_json& root) {
    root["hidden_size"] = model.hidden_size;
    root["intermediate_size"] = model.ffn_size;
    root["num_hidden_layers"] = model.num_layers;
    root["num_attention_heads"] = model.num_heads;
    root["num_key_value_heads"] = model.num_kv_heads;
    if (type != "qwen2" || model.head_dim * model.num_heads != model.hidden_size)
        root["head_dim"] = model.head_dim;
    root["hidden_act"] = "silu";
    root["rms_norm_eps"] = model.norm_eps;
    root["max_position_embeddings"] = positions_of(model, seq_len);
    write_hf_rope(model.rope, root);
    root["attention_dropout"] = 0.0;
    if (type != "qwen2") root["attention_bias"] = false;
    if (type == "llama")
        root["mlp_bias"] = false;
    else
        root["use_sliding_window"] = false;
}

// What the model's function does not hang on, from the config.json it came with. unsaid: the model does not
// say how long a text it is made for.
void carry(const std::string& imported, bool unsaid, ordered_json& root) {
    root["initializer_range"] = 0.02;
    root["bos_token_id"] = nullptr;
    root["eos_token_id"] = nullptr;
    root["use_cache"] = true;
    if (imported.empty()) return;
    nlohmann::json from;
    try {
        from = parse_strict_json(imported);
    } catch (const JsonFault& fault) {
        throw DataError(std::string("the config.json that the checkpoint carries along ") + fault.what() +
                        ". Import the model anew, or remove the file from the checkpoint's hf folder.");
    }
    for (const char* key : {"initializer_range", "bos_token_id", "eos_token_id", "pad_token_id", "use_cache"})
        if (from.contains(key)) root[key] = from[key];
    // Where the job said nothing of it.
    const char* length = "max_position_embeddings";
    if (unsaid && from.contains(length) && from[length].is_number_integer())
        root[length] = std::max(root[length].get<std::int64_t>(), from[length].get<std::int64_t>());
}

}  // namespace

std::string hf_config_text(const config::ModelConfig& model, const std::string& dtype, std::int64_t seq_len,
                           const std::string& imported) {
    const config::ModelConfig whole = config::resolved_model(model, seq_len);
    const HfFamily& family = family_of(whole);
    const bool gpt2 = whole.arch == config::Arch::gpt2;
    ordered_json root;
    root["architectures"] = {family.architectures[0]};
    root["model_type"] = family.model_type;
    root["vocab_size"] = whole.vocab_size;
    if (gpt2)
        write_gpt2(whole, root);
    else
        write_llama(whole, family.model_type, seq_len, root);
    root["tie_word_embeddings"] = whole.tie_embeddings;
    carry(imported, whole.max_positions == 0, root);
    root["torch_dtype"] = dtype;
    return root.dump(2) + "\n";
}

}  // namespace escalier::checkpoint
