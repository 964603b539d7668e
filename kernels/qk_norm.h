// RMS normalisation of every query and key head (Qwen3), before RoPE. qkv: [R, (NH + 2 NKV) HS]; gains: [HS]
// each.
#pragma once

#include "core/op_context.h"
#include "core/tensor_view.h"
#include "kernels/accumulate.h"

namespace escalier::kernels {

// out = qkv with queries and keys normalised and values copied; rstd: [R, NH + NKV].
using QkNormForward = void(const OpContext&, TensorView out, TensorView rstd, TensorView qkv,
                           TensorView query_weight, TensorView key_weight, std::int64_t heads,
                           std::int64_t kv_heads, float eps);
// dqkv in place: in the gradient of out, out the gradient of qkv. Gains' gradients (+)= sums over rows and
// heads.
using QkNormBackward = void(const OpContext&, TensorView dqkv, TensorView dquery_weight,
                            TensorView dkey_weight, TensorView qkv, TensorView rstd, TensorView query_weight,
                            TensorView key_weight, std::int64_t heads, std::int64_t kv_heads,
                            Accumulate accumulate);

}  // namespace escalier::kernels
