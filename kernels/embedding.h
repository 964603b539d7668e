// Token and position embedding.
#pragma once

#include "core/op_context.h"
#include "core/tensor_view.h"
#include "kernels/accumulate.h"

namespace escalier::kernels {

// out[R,C] = table[token - vocab_begin] where vocab_begin <= token < vocab_begin + V, else zeros: the sum of
// the outputs over tensor ranks is the look-up. tokens: i32 [R]. table: [V,C], the rank's rows.
using EmbeddingForward = void(const OpContext&, TensorView out, TensorView tokens, TensorView table,
                              std::int64_t vocab_begin);
// dtable[V,C] += the rows of dout[R,C] at their tokens, in ascending row order for each token
// (deterministic); overwrite zeroes dtable first.
using EmbeddingBackward = void(const OpContext&, TensorView dtable, TensorView tokens, TensorView dout,
                               std::int64_t vocab_begin, Accumulate accumulate);
// x[R,C] += positions[t] for row b*T + t. positions: [P,C], T <= P.
using PositionForward = void(const OpContext&, TensorView x, TensorView positions, std::int64_t sequence);
// dpositions[P,C] (+)= the sum over samples of dout[b*T + t], rows t >= T get zero (overwrite) or stay (add).
using PositionBackward = void(const OpContext&, TensorView dpositions, TensorView dout, std::int64_t sequence,
                              Accumulate accumulate);

}  // namespace escalier::kernels
