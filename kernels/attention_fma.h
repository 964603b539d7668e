// Attention without tensor cores: fp32 storage, and bf16 with a head size that the tensor-core kernels
// (attention_forward.cu, attention_backward.cu) have no tiles for. Any head size up to 256.
#pragma once

#include "core/op_context.h"
#include "kernels/attention_statistics.h"

namespace escalier::kernels::cuda {

inline constexpr int max_fma_head_size = 256;

void fma_attention_forward(const OpContext& context, const AttentionGeometry& g, TensorView out,
                           TensorView lse, TensorView qkv);
void fma_attention_backward(const OpContext& context, const AttentionGeometry& g, TensorView dqkv,
                            TensorView dout, TensorView qkv, const AttentionStatistics& statistics);

}  // namespace escalier::kernels::cuda
