#include "config/model_facts.h"

#include "core/text.h"

namespace escalier::config {

ModelConfig resolved_model(ModelConfig model, std::int64_t seq_len) {
    if (model.num_kv_heads == 0) model.num_kv_heads = model.num_heads;
    if (model.head_dim == 0 && model.num_heads > 0) model.head_dim = model.hidden_size / model.num_heads;
    if (model.arch == Arch::gpt2) {
        if (model.ffn_size == 0) model.ffn_size = 4 * model.hidden_size;
        if (model.max_positions == 0) model.max_positions = seq_len;
    }
    return model;
}

std::int64_t padded_vocab(std::int64_t vocab_size, std::int64_t tp) {
    const std::int64_t unit = 128 * tp;
    return (vocab_size + unit - 1) / unit * unit;
}

std::int64_t embedding_parameters(const ModelConfig& m) {
    return (m.vocab_size + (m.arch == Arch::gpt2 ? m.max_positions : 0)) * m.hidden_size;
}

std::int64_t layer_matrix_parameters(const ModelConfig& m) {
    const std::int64_t queries = m.num_heads * m.head_dim;
    const std::int64_t keys = m.num_kv_heads * m.head_dim;
    const std::int64_t mlp_matrices = m.arch == Arch::gpt2 ? 2 : 3;
    return m.hidden_size * (2 * queries + 2 * keys) + mlp_matrices * m.hidden_size * m.ffn_size;
}

std::int64_t layer_parameters(const ModelConfig& m) {
    const std::int64_t queries = m.num_heads * m.head_dim;
    const std::int64_t keys = m.num_kv_heads * m.head_dim;
    std::int64_t count = layer_matrix_parameters(m);
    if (m.arch == Arch::gpt2) {
        count += 4 * m.hidden_size;                   // gains and biases of two norms
        count += queries + 2 * keys + m.hidden_size;  // biases of attention
        count += m.ffn_size + m.hidden_size;          // biases of the MLP
    } else {
        count += 2 * m.hidden_size;  // gains of two norms
        count += m.qkv_bias ? queries + 2 * keys : 0;
        count += m.qk_norm ? 2 * m.head_dim : 0;
    }
    return count;
}

std::int64_t head_parameters(const ModelConfig& m) {
    const std::int64_t norm = (m.arch == Arch::gpt2 ? 2 : 1) * m.hidden_size;
    return norm + (m.tie_embeddings ? 0 : m.vocab_size * m.hidden_size);
}

std::int64_t parameter_count(const ModelConfig& m) {
    return embedding_parameters(m) + m.num_layers * layer_parameters(m) + head_parameters(m);
}

double flops_per_token(const ModelConfig& m, std::int64_t seq_len) {
    const double matrices =
        static_cast<double>(m.num_layers) * static_cast<double>(layer_matrix_parameters(m)) +
        static_cast<double>(m.vocab_size) * static_cast<double>(m.hidden_size);
    const double attention = static_cast<double>(m.num_layers) *
                             static_cast<double>(m.num_heads * m.head_dim) * static_cast<double>(seq_len);
    return 6.0 * matrices + 6.0 * attention;
}

std::string model_text(const ModelConfig& m) {
    const auto number = [](std::int64_t value) { return std::to_string(value); };
    return std::string(m.arch == Arch::gpt2 ? "gpt2, " : "llama, ") + number(m.num_layers) + " layers x " +
           number(m.hidden_size) + " hidden x " + number(m.num_heads) + " heads" +
           (m.num_kv_heads != m.num_heads ? " on " + number(m.num_kv_heads) + " key/value heads" : "") +
           ", ffn " + number(m.ffn_size) + ", vocabulary " + grouped(m.vocab_size) + ", parameters " +
           grouped(parameter_count(m));
}

}  // namespace escalier::config
