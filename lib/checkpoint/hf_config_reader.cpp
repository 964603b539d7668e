#include <algorithm>
#include <cmath>
#include <optional>

#include "checkpoint/hf_config.h"
#include "checkpoint/hf_config_keys.h"
#include "checkpoint/hf_rope.h"
#include "checkpoint/strict_json.h"
#include "config/dump.h"
#include "config/fields.h"
#include "config/validate.h"
#include "core/error.h"
#include "core/text.h"

namespace escalier::checkpoint {

namespace {

using nlohmann::json;

class ConfigReader {
 public:
    ConfigReader(const json& root, const std::string& path, const std::set<std::string>& ignored)
        : root_(root), path_(path), ignored_(ignored) {}

    HfConfig read() {
        family();
        if (gpt2())
            read_gpt2();
        else
            read_llama();
        for (const FixedKey& key : fixed_keys(gpt2())) check(key);
        dtype();
        refuse_unknown_keys();
        check_limits();
        return config_;
    }

 private:
    bool gpt2() const { return family_->model_type == "gpt2"; }

    [[noreturn]] void refuse(const std::string& key, const std::string& rule) const {
        throw DataError(path_ + ": '" + shortened(key, 100) + "' is " + shortened(root_.at(key).dump()) +
                        "; " + rule);
    }

    // The value of a key that is there and not null, which then counts as known.
    const json* find(const std::string& key) {
        known_.insert(key);
        const auto found = root_.find(key);
        return found == root_.end() || found->is_null() ? nullptr : &*found;
    }

    // fallback: what transformers takes where the key is absent; 0 where its null means "derived".
    std::int64_t whole(const std::string& key, std::int64_t fallback, std::int64_t of_null = -1) {
        const json* value = find(key);
        if (!value) {
            if (!root_.contains(key)) return fallback;
            if (of_null >= 0) return of_null;
            refuse(key, "wanted a whole number");
        }
        if (!value->is_number_integer() || *value < 1 || *value > INT32_MAX)
            refuse(key, "wanted a whole number from 1 to 2147483647");
        return value->get<std::int64_t>();
    }

    double real(const std::string& key, double fallback) {
        const json* value = find(key);
        if (!value && !root_.contains(key)) return fallback;
        if (!value || !value->is_number()) refuse(key, "wanted a number");
        return value->get<double>();
    }

    bool yes(const std::string& key, bool fallback) {
        const json* value = find(key);
        if (!value) return root_.contains(key) ? false : fallback;  // Python's None is no yes
        if (!value->is_boolean()) refuse(key, "wanted true or false");
        return value->get<bool>();
    }

    // GPT-2's own name of a key, or the general one that transformers accepts in its place.
    std::int64_t whole_of(const std::string& own, const std::string& general, std::int64_t fallback) {
        if (!root_.contains(general)) return whole(own, fallback);
        const std::int64_t value = whole(general, fallback);
        if (root_.contains(own) && whole(own, fallback) != value)
            refuse(own, "but '" + general + "', another name for it, is " + std::to_string(value) +
                            ". Make them equal or remove one.");
        return value;
    }

    void family() {
        if (!root_.is_object())
            throw DataError(path_ + ": not a JSON object. Give the config.json of a model.");
        std::string names;
        for (const HfFamily& family : hf_families()) {
            names += (names.empty() ? "" : ", ") + family.model_type;
            if (root_.contains("model_type") && root_["model_type"] == family.model_type) family_ = &family;
        }
        if (!root_.contains("model_type"))
            throw DataError(path_ + ": the key 'model_type' is missing; Escalier imports " + names + ".");
        if (!family_) refuse("model_type", "Escalier imports " + names + ".");
        const json* architectures = find("architectures");
        if (!architectures) return;
        const auto& accepted = family_->architectures;
        const auto fits = [&](const json& name) {
            return std::find(accepted.begin(), accepted.end(), name) != accepted.end();
        };
        if (!architectures->is_array() || !std::all_of(architectures->begin(), architectures->end(), fits))
            refuse("architectures", "Escalier imports the language model, " + accepted[0] + ".");
    }

    void read_gpt2() {
        config::ModelConfig& model = config_.model;
        model.arch = config::Arch::gpt2;
        model.vocab_size = whole("vocab_size", 50257);
        model.max_positions = whole_of("n_positions", "max_position_embeddings", 1024);
        model.hidden_size = whole_of("n_embd", "hidden_size", 768);
        model.num_layers = whole_of("n_layer", "num_hidden_layers", 12);
        model.num_heads = whole_of("n_head", "num_attention_heads", 12);
        if (root_.contains("n_ctx") && whole("n_ctx", 0) != model.max_positions)
            refuse("n_ctx", "but 'n_positions' is " + std::to_string(model.max_positions) +
                                ", and GPT-2 has one length. Make them equal or remove n_ctx.");
        model.ffn_size = whole("n_inner", 0, 0);
        model.norm_eps = real("layer_norm_epsilon", 1e-5);
        model.tie_embeddings = yes("tie_word_embeddings", true);
        config_.max_positions = model.max_positions;
        gpt2_dropout();
    }

    void gpt2_dropout() {
        const double embedding = real("embd_pdrop", 0.1), residual = real("resid_pdrop", 0.1);
        const double attention = real("attn_pdrop", 0.1);
        if (embedding != residual)
            throw DataError(path_ + ": 'embd_pdrop' is " + json(embedding).dump() + " and 'resid_pdrop' " +
                            json(residual).dump() +
                            ", but Escalier has one model.dropout for both. Make them equal.");
        if (attention != 0 && attention != residual)
            throw DataError(path_ + ": 'attn_pdrop' is " + json(attention).dump() + " and 'resid_pdrop' " +
                            json(residual).dump() +
                            ", but Escalier drops no attention probabilities. Set attn_pdrop to 0.");
        config_.model.dropout = residual;
        if (attention != 0)
            config_.warnings.push_back("'attn_pdrop' is " + json(attention).dump() +
                                       ": Escalier drops no attention probabilities; model.dropout " +
                                       json(residual).dump() +
                                       " acts on the embedding and the residual branches.");
    }

    void read_llama() {
        const bool llama = family_->model_type == "llama", qwen3 = family_->model_type == "qwen3";
        config::ModelConfig& model = config_.model;
        model.arch = config::Arch::llama;
        model.vocab_size = whole("vocab_size", llama ? 32000 : 151936);
        model.hidden_size = whole("hidden_size", 4096);
        model.ffn_size = whole("intermediate_size", llama ? 11008 : 22016);
        model.num_layers = whole("num_hidden_layers", 32);
        model.num_heads = whole("num_attention_heads", 32);
        model.num_kv_heads = whole("num_key_value_heads", llama ? model.num_heads : 32, model.num_heads);
        model.head_dim = whole("head_dim", qwen3 ? 128 : 0, 0);
        model.norm_eps = real("rms_norm_eps", 1e-6);
        model.tie_embeddings = yes("tie_word_embeddings", false);
        model.qkv_bias = family_->model_type == "qwen2";
        model.qk_norm = qwen3;
        config_.max_positions = whole("max_position_embeddings", llama ? 2048 : 32768);
        model.max_positions = std::min(config_.max_positions, config::most_sequence);
        for (const char* key : hf_rope_keys) find(key);
        model.rope = read_hf_rope(root_, path_, config_.max_positions);
        if (!llama) sliding_window();
    }

    // Refused where some layer has one.
    void sliding_window() {
        const std::int64_t layers = config_.model.num_layers;
        const bool on = yes("use_sliding_window", false);
        const bool has_window = find("sliding_window") != nullptr || !root_.contains("sliding_window");
        const json* given = find("max_window_layers");  // the layers from this one on have a window
        const std::int64_t first = given && given->is_number_integer() ? given->get<std::int64_t>() : 28;
        if (const json* types = find("layer_types")) {
            const auto full = [](const json& type) {
                return type == "full_attention" || type == "attention";
            };
            if (!types->is_array() || !std::all_of(types->begin(), types->end(), full))
                refuse("layer_types", "Escalier has full attention in every layer.");
            if (static_cast<std::int64_t>(types->size()) != layers)
                refuse("layer_types",
                       "but 'num_hidden_layers' is " + std::to_string(layers) + ". Make the list as long.");
        } else if (on && has_window && first < layers) {
            refuse("use_sliding_window",
                   "Escalier has full attention in every layer. Set it to false if no sequence is to be "
                   "longer than the window.");
        }
    }

    void check(const FixedKey& key) {
        const json* value = find(key.name);
        if (!value) {  // null is false
            const bool none =
                !root_.contains(key.name) || key.accepted.empty() || !key.accepted[0].is_boolean();
            if (none || key.accepted[0] == false) return;
            refuse(key.name, std::string(key.reason) + ".");
        }
        for (const json& accepted : key.accepted)
            if (*value == accepted) return;
        std::string list;
        for (const json& accepted : key.accepted) list += (list.empty() ? "" : ", ") + accepted.dump();
        refuse(key.name,
               std::string(key.reason) + (list.empty() ? "." : ": only " + list + " can be imported."));
    }

    void dtype() {
        for (const char* key : {"torch_dtype", "dtype"})  // version 5's name comes first
            if (const json* value = find(key); value && value->is_string()) config_.dtype = *value;
    }

    void refuse_unknown_keys() {
        for (const auto& [key, value] : root_.items())
            if (!value.is_null() && !known_.contains(key) && !is_harmless_key(key) && !ignored_.contains(key))
                refuse(key, "Escalier does not know the key for " + family_->model_type +
                                ". If it changes nothing in what the model computes, pass it over with "
                                "--ignore-key " +
                                shortened(key) + ".");
        for (const std::string& key : ignored_)
            if (root_.contains(key) && known_.contains(key))
                throw DataError(path_ + ": --ignore-key " + key +
                                " names a key that the import reads. Change its value in the file instead.");
    }

    // Judges the model by every rule of a job spec.
    void check_limits() {
        try {
            config::JobSpec spec;
            spec.model = config::parse_model(config::dump_model(config_.model), "model");
            spec.train.seq_len = 1;
            config_.model = config::resolve(spec, 1).model;
        } catch (const ConfigError& error) {
            throw DataError(path_ + ": the model is outside of what Escalier trains: " + error.what());
        }
    }

    const json& root_;
    const std::string& path_;
    const std::set<std::string>& ignored_;
    const HfFamily* family_ = nullptr;
    std::set<std::string> known_;
    HfConfig config_;
};

}  // namespace

HfConfig parse_hf_config(const std::string& text, const std::string& path,
                         const std::set<std::string>& ignored) {
    json root;
    try {
        root = parse_strict_json(text);
    } catch (const JsonFault& fault) {
        throw DataError(path + ": the text " + fault.what() + ". Fetch or write the file anew.");
    }
    return ConfigReader(root, path, ignored).read();
}

}  // namespace escalier::checkpoint
