#include "checkpoint/hf_config_keys.h"

#include <set>

namespace escalier::checkpoint {

const std::vector<HfFamily>& hf_families() {
    static const std::vector<HfFamily> families = {{"gpt2", {"GPT2LMHeadModel", "GPT2Model"}},
                                                   {"llama", {"LlamaForCausalLM", "LlamaModel"}},
                                                   {"qwen2", {"Qwen2ForCausalLM", "Qwen2Model"}},
                                                   {"qwen3", {"Qwen3ForCausalLM", "Qwen3Model"}}};
    return families;
}

const std::vector<FixedKey>& fixed_keys(bool gpt2) {
    using nlohmann::json;
    static const std::vector<FixedKey> common = {
        {"is_encoder_decoder", {false}, "Escalier trains decoders"},
        {"add_cross_attention", {false}, "Escalier has no cross-attention"},
        {"pruned_heads", {json::object()}, "Escalier does not prune heads"},
        {"per_layer_config", {json::object()}, "in Escalier all layers are alike"},
        {"quantization_config", {}, "Escalier reads weights in F32, F16 or BF16"},
        {"compression_config", {}, "Escalier reads weights in F32, F16 or BF16"},
        {"auto_map", {json::object()}, "a model of its own code is not one of the families"},
    };
    static const std::vector<FixedKey> of_gpt2 = [] {
        std::vector<FixedKey> keys = common;
        keys.push_back({"activation_function",
                        {"gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_fast", "gelu_accurate"},
                        "Escalier's GPT-2 has the tanh form of GELU"});
        keys.push_back({"scale_attn_weights", {true}, "Escalier scales scores by 1/sqrt(head size)"});
        keys.push_back(
            {"scale_attn_by_inverse_layer_idx", {false}, "Escalier scales scores alike in every layer"});
        return keys;
    }();
    static const std::vector<FixedKey> of_llama = [] {
        std::vector<FixedKey> keys = common;
        keys.push_back({"hidden_act", {"silu", "swish"}, "Escalier's MLP has SiLU"});
        keys.push_back({"attention_bias", {false}, "Escalier has no bias on the output of attention"});
        keys.push_back({"mlp_bias", {false}, "Escalier has no biases in this MLP"});
        keys.push_back({"attention_dropout", {0}, "Escalier does not drop attention probabilities"});
        keys.push_back({"partial_rotary_factor", {1}, "Escalier rotates whole heads"});
        return keys;
    }();
    return gpt2 ? of_gpt2 : of_llama;
}

bool is_harmless_key(const std::string& name) {
    static const std::set<std::string> names = {
        // names and versions
        "architectures", "finetuning_task", "model_type", "name_or_path", "tokenizer_class",
        "transformers.js_config", "transformers_version", "unsloth_fixed", "unsloth_version",
        // how the weights are held and the model is called
        "attn_implementation", "chunk_size_feed_forward", "dtype", "gradient_checkpointing",
        "initializer_range", "is_decoder", "output_attentions", "output_hidden_states", "pretraining_tp",
        "reorder_and_upcast_attn", "return_dict", "tf_legacy_loss", "tie_encoder_decoder", "torch_dtype",
        "torchscript", "use_bfloat16", "use_cache", "use_return_dict",
        // other heads than the language model's
        "id2label", "label2id", "num_labels", "predict_special_tokens", "problem_type", "summary_activation",
        "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj",
        "task_specific_params",
        // token ids and generation
        "bad_words_ids", "begin_suppress_tokens", "bos_token_id", "decoder_start_token_id",
        "diversity_penalty", "do_sample", "early_stopping", "encoder_no_repeat_ngram_size", "eos_token_id",
        "exponential_decay_length_penalty", "forced_bos_token_id", "forced_eos_token_id", "length_penalty",
        "max_length", "max_new_tokens", "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams",
        "num_return_sequences", "output_scores", "pad_token_id", "prefix", "remove_invalid_values",
        "repetition_penalty", "return_dict_in_generate", "sep_token_id", "suppress_tokens", "temperature",
        "top_k", "top_p", "typical_p"};
    return name.starts_with('_') || names.contains(name);
}

}  // namespace escalier::checkpoint
