// A small job on two grids, for tests of verify.
#pragma once

#include <string>
#include <vector>

#include "tests/harness/multirank_env.h"
#include "train/verify.h"

namespace escalier::train {

inline const std::string gpt2 = "arch: gpt2, hidden_size: 32, num_heads: 4, tie_embeddings: false";
inline const std::string tied_gpt2 = "arch: gpt2, hidden_size: 32, num_heads: 4";
inline const std::string llama =
    "arch: llama, hidden_size: 32, num_heads: 4, num_kv_heads: 2, ffn_size: 72, tie_embeddings: false";

// One grid: "parallel.tp=2" and so on. The model has 4 layers and a vocabulary of 200, the batch 8 samples of
// 16 tokens.
config::JobSpec verified_spec(const std::string& model, const std::vector<std::string>& overrides);

// hooks: of the second grid.
VerifyResult verify_grids(const std::string& model, const std::vector<std::string>& a,
                          const std::vector<std::string>& b, const AssemblyHooks& hooks = {},
                          std::int64_t steps = 2, bool activations = false);

// The grids differ, for this cause, and the diagnosis holds this text. Rank 0 prints what was found.
void expect_found(const VerifyResult& result, const std::string& cause, const std::string& text);

}  // namespace escalier::train
