// What attention's backward pass needs of each query, beside its rows: in scratch, made by one kernel for all
// others.
#pragma once

#include "kernels/attention_geometry.h"
#include "kernels/attention_scratch.h"

namespace escalier::kernels::cuda {

// p = exp2(score * log2(e) - lse); gradient of the score = p (dprobability - delta).
struct alignas(8) QueryStatistics {
    float lse;    // log2 of the sum of exp(score)
    float delta;  // dout . out
};
static_assert(sizeof(QueryStatistics) == attention_statistics_bytes);

// [B, NH, attention_statistics_rows(T)]; queries after the sequence have lse = infinity, so that their
// probabilities are 0.
struct AttentionStatistics {
    const QueryStatistics* memory;
    int rows;  // of a head

    __device__ __forceinline__ const QueryStatistics* of_head(const AttentionGeometry& g, int sample,
                                                              int head) const {
        return memory + static_cast<std::int64_t>(sample * g.heads + head) * rows;
    }
};

// Fills the scratch of the context.
AttentionStatistics attention_statistics(const OpContext& context, const AttentionGeometry& g,
                                         const TensorView& dout, const TensorView& out,
                                         const TensorView& lse);

}  // namespace escalier::kernels::cuda
