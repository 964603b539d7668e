// The last stage's way out: final norm, output linear, cross-entropy over a sharded vocabulary, in chunks of
// rows so that full logits never exist. A chunk's logits become their gradient in place, so the head's whole
// backward pass happens while the chunk is there: in F. What B finds is the gradient of the residual stream.
#pragma once

#include <vector>

#include "device/arena.h"
#include "model/context.h"
#include "model/registry.h"

namespace escalier::model {

class LossHead {
 public:
    LossHead(const ModelContext& context, HeadWeights weights, device::Arena& workspace);

    void prepare_weights() const;
    int chunks() const { return static_cast<int>((context_.shape.rows + chunk_rows_ - 1) / chunk_rows_); }

    void forward_norm(TensorView x);  // x: [R,C]
    void logits(int chunk, TensorView targets);
    void exchange(int chunk, const char* label);  // collective
    // Adds the chunk's losses to the micro-batch's; with gradients also the head's input and weight
    // gradients.
    void finish_chunk(int chunk, TensorView targets, const StepInputs& step, kernels::Accumulate accumulate);
    void reduce(const char* label);  // collective: the input gradient over the tensor group
    void backward_norm(TensorView dx, TensorView x, kernels::Accumulate accumulate);

    // f64 [1]: sum of the token losses of the micro-batch since forward_norm, in row order.
    TensorView loss_sum() const { return loss_sum_; }
    // Logits of one row after forward_norm, this rank's shard [1,V].
    TensorView row_logits(std::int64_t row);

 private:
    TensorView chunk_of(TensorView rows, int chunk) const;
    std::int64_t chunk_size(int chunk) const;

    const ModelContext& context_;
    HeadWeights weights_;
    std::int64_t chunk_rows_;
    TensorView normed_, mean_, rstd_, dnormed_;  // [R,C], [R], [R], [R,C]
    TensorView logits_, statistics_, all_statistics_, losses_;
    TensorView loss_sum_;
};

}  // namespace escalier::model
