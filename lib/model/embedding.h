// The first stage's way in: token look-up over a sharded vocabulary, positions (gpt2), dropout.
#pragma once

#include "model/context.h"
#include "model/registry.h"

namespace escalier::model {

class Embedding {
 public:
    Embedding(const ModelContext& context, EmbeddingWeights weights);

    // x[R,C]: a partial sum over the tensor group, which the caller sums; then finish().
    void forward(TensorView x, TensorView tokens) const;
    void finish(TensorView x, const StepInputs& step, TensorView first_sample) const;
    // dx is overwritten.
    void backward(TensorView dx, TensorView tokens, const StepInputs& step, TensorView first_sample,
                  kernels::Accumulate accumulate) const;
    const Weight& table() const { return weights_.table; }

 private:
    const ModelContext& context_;
    EmbeddingWeights weights_;
    DropoutSite dropout_;
};

}  // namespace escalier::model
