// Softmax cross-entropy over a vocabulary that is cut over tensor ranks, for one chunk of rows. logits: [n,
// V] of this rank, of which the first `valid` columns are real and the rest is padding; targets: i32 [n],
// global ids, -1 for no target.
#pragma once

#include "core/op_context.h"
#include "core/tensor_view.h"
#include "kernels/accumulate.h"

namespace escalier::kernels {

// statistics[n,3] = max of the logits, sum of exp(logit - max), logit of the target or 0 if another rank
// holds it. A rank without a single real column reports (-inf, 0, 0).
using CrossEntropyStatistics = void(const OpContext&, TensorView statistics, TensorView logits,
                                    TensorView targets, std::int64_t vocab_begin, std::int64_t valid);
// all_statistics[ranks, n, 3] are combined in rank order into losses[n] = log(sum exp) - target logit (0
// where the target is -1). With gradient, logits become (softmax - onehot) * scale[0], zero in padding and in
// rows without a target. scale lies in memory of the backend.
using CrossEntropyFinish = void(const OpContext&, TensorView losses, TensorView logits,
                                TensorView all_statistics, TensorView targets, std::int64_t vocab_begin,
                                std::int64_t valid, const float* scale, bool gradient);
// sum[0] (+)= the losses, in double, one after the other or in another fixed order. sum: f64.
using SumLosses = void(const OpContext&, TensorView sum, TensorView losses, Accumulate accumulate);

}  // namespace escalier::kernels
