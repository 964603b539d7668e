#include "model/embedding.h"

#include <utility>

namespace escalier::model {

Embedding::Embedding(const ModelContext& context, EmbeddingWeights weights)
    : context_(context),
      weights_(std::move(weights)),
      dropout_{stream_of("embedding dropout"), static_cast<float>(context.config.dropout)} {}

void Embedding::forward(TensorView x, TensorView tokens) const {
    context_.ops.embedding_forward(context_.op, x, tokens, weights_.table.value, context_.shape.vocab_begin);
}

void Embedding::finish(TensorView x, const StepInputs& step, TensorView first_sample) const {
    if (weights_.positions.value.has_data())
        context_.ops.position_forward(context_.op, x, weights_.positions.value, context_.shape.sequence);
    if (dropout_.active(step)) dropout_.apply(context_, x, TensorView(), first_sample);
}

void Embedding::backward(TensorView dx, TensorView tokens, const StepInputs& step, TensorView first_sample,
                         kernels::Accumulate accumulate) const {
    if (dropout_.active(step)) dropout_.apply(context_, dx, TensorView(), first_sample);
    if (weights_.positions.gradient.has_data())
        context_.ops.position_backward(context_.op, weights_.positions.gradient, dx, context_.shape.sequence,
                                       accumulate);
    context_.ops.embedding_backward(context_.op, weights_.table.gradient, tokens, dx,
                                    context_.shape.vocab_begin, accumulate);
}

}  // namespace escalier::model
