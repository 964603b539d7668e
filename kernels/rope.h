// Rotary position embedding (Su et al. 2021) in Hugging Face's "rotate half" layout: dimension m of a head
// pairs with m + HS/2. qkv: [R, (NH + 2 NKV) HS], queries first, then keys, then values, which are left
// alone.
#pragma once

#include "core/op_context.h"
#include "core/tensor_view.h"

namespace escalier::kernels {

struct RopeScalingParameters {  // Llama 3.1; factor 0: no scaling
    double factor = 0;
    double low_freq_factor = 1;
    double high_freq_factor = 4;
    double original_max_positions = 8192;
};

// Fills table[T, HS] with cos of HS/2 angles, then sin of them, for positions 0 .. T-1: those that PyTorch
// computes in fp32, to the last bit of fp32.
using RopeTable = void(const OpContext&, TensorView table, double theta,
                       const RopeScalingParameters& scaling);
// Rotates queries and keys of qkv in place, forward or (for gradients) backward. Row b*T + t has position t.
using Rope = void(const OpContext&, TensorView qkv, TensorView table, std::int64_t heads,
                  std::int64_t kv_heads, std::int64_t sequence);

}  // namespace escalier::kernels
