// Causal self-attention with grouped heads: query head j reads key/value head j / (NH/NKV); softmax(q k^T /
// sqrt(HS)) v. Never holds T x T: blocks of query rows against their keys (Dao et al. 2022), the log-sum-exp
// kept for the backward pass. qkv: [R, (NH + 2 NKV) HS]; out: [R, NH HS]; lse: [B, NH, T].
#pragma once

#include "core/op_context.h"
#include "core/tensor_view.h"

namespace escalier::kernels {

using AttentionForward = void(const OpContext&, TensorView out, TensorView lse, TensorView qkv,
                              std::int64_t batch, std::int64_t sequence, std::int64_t heads,
                              std::int64_t kv_heads);
// dqkv (=) in the layout of qkv.
using AttentionBackward = void(const OpContext&, TensorView dqkv, TensorView dout, TensorView out,
                               TensorView lse, TensorView qkv, std::int64_t batch, std::int64_t sequence,
                               std::int64_t heads, std::int64_t kv_heads);

}  // namespace escalier::kernels
