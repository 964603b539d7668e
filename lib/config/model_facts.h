// What a model's config says about its size and work. All of it takes a resolved ModelConfig (no auto left).
//
// FLOPs follow performance.md: 6 x (matrix parameters, head counted once, embedding look-up not) + 6 L A T
// per token, A = num_heads x head_dim (C for most models), the causal half of attention; recompute is never
// counted.
#pragma once

#include <cstdint>
#include <string>

#include "config/job_spec.h"

namespace escalier::config {

// Fills num_kv_heads, head_dim, and of gpt2 ffn_size and max_positions, where they are auto (0). seq_len as
// resolved.
ModelConfig resolved_model(ModelConfig model, std::int64_t seq_len);

// The vocabulary that is computed with: a multiple of 128 * tp.
std::int64_t padded_vocab(std::int64_t vocab_size, std::int64_t tp);

// Logical counts: vocabulary unpadded, a tied head counted with the embedding.
std::int64_t embedding_parameters(const ModelConfig& model);  // tokens, and learned positions
std::int64_t layer_parameters(const ModelConfig& model);
std::int64_t head_parameters(const ModelConfig& model);  // last norm, and the head if it is not tied
std::int64_t parameter_count(const ModelConfig& model);

// "llama, 4 layers x 128 hidden x 4 heads on 2 key/value heads, ffn 384, vocabulary 257, parameters 820,480"
std::string model_text(const ModelConfig& model);

// Elements of the weight matrices of one layer.
std::int64_t layer_matrix_parameters(const ModelConfig& model);

// Model FLOPs of one token, forward and backward, with `seq_len` tokens per sample.
double flops_per_token(const ModelConfig& model, std::int64_t seq_len);

}  // namespace escalier::config
