#include "model/loss_head.h"

#include <algorithm>
#include <utility>

#include "model/block.h"

namespace escalier::model {

namespace {

std::int64_t rows_per_chunk(const ModelContext& context) {
    const ModelShape& shape = context.shape;
    const std::int64_t row_bytes = static_cast<std::int64_t>(size_of(context.storage)) * shape.vocab_rows;
    const std::int64_t fitting = context.logits_bytes / row_bytes / 64 * 64;
    return std::clamp<std::int64_t>(fitting, std::min<std::int64_t>(64, shape.rows), shape.rows);
}

}  // namespace

LossHead::LossHead(const ModelContext& context, HeadWeights weights, device::Arena& workspace)
    : context_(context), weights_(std::move(weights)), chunk_rows_(rows_per_chunk(context)) {
    const ModelShape& s = context.shape;
    const auto take = [&](Shape shape) { return workspace.take(DType::f32, shape); };
    normed_ = workspace.take(context.storage, {s.rows, s.hidden});
    if (context.gpt2()) mean_ = take({s.rows});
    rstd_ = take({s.rows});
    dnormed_ = workspace.take(context.storage, {s.rows, s.hidden});
    logits_ = workspace.take(context.storage, {chunk_rows_, s.vocab_rows});
    statistics_ = take({chunk_rows_, 3});
    all_statistics_ = context.tp.size() > 1 ? take({context.tp.size() * chunk_rows_, 3}) : statistics_;
    losses_ = take({chunk_rows_});
    loss_sum_ = workspace.take(DType::f64, {1});
}

void LossHead::prepare_weights() const {
    if (weights_.output.prepared.has_data())
        context_.ops.prepare_weight(context_.op, weights_.output.prepared, weights_.output.weight.value);
}

std::int64_t LossHead::chunk_size(int chunk) const {
    return std::min(chunk_rows_, context_.shape.rows - chunk * chunk_rows_);
}

TensorView LossHead::chunk_of(TensorView rows, int chunk) const {
    return rows.rows(chunk * chunk_rows_, chunk_size(chunk));
}

void LossHead::forward_norm(TensorView x) {
    norm_forward(context_, weights_.norm, normed_, mean_, rstd_, x);
}

void LossHead::logits(int chunk, TensorView targets) {
    const std::int64_t n = chunk_size(chunk);
    context_.ops.linear_forward(context_.op, logits_.rows(0, n), TensorView(), chunk_of(normed_, chunk),
                                weights_.output.weight.value, weights_.output.prepared, TensorView(),
                                kernels::Epilogue::none);
    context_.ops.cross_entropy_statistics(context_.op, statistics_.rows(0, n), logits_.rows(0, n),
                                          chunk_of(targets, chunk), context_.shape.vocab_begin,
                                          context_.shape.vocab_valid);
}

void LossHead::exchange(int chunk, const char* label) {
    const std::int64_t n = chunk_size(chunk);
    context_.tp.all_gather(all_statistics_.rows(0, context_.tp.size() * n), statistics_.rows(0, n), label);
}

void LossHead::finish_chunk(int chunk, TensorView targets, const StepInputs& step,
                            kernels::Accumulate accumulate) {
    const std::int64_t n = chunk_size(chunk), ranks = context_.tp.size();
    const TensorView logits = logits_.rows(0, n);
    context_.ops.cross_entropy_finish(context_.op, losses_.rows(0, n), logits,
                                      all_statistics_.rows(0, ranks * n).reshaped({ranks, n, 3}),
                                      chunk_of(targets, chunk), context_.shape.vocab_begin,
                                      context_.shape.vocab_valid, step.loss_scale.as<float>(), step.training);
    context_.ops.sum_losses(context_.op, loss_sum_, losses_.rows(0, n),
                            chunk ? kernels::Accumulate::add : kernels::Accumulate::overwrite);
    if (!step.training) return;
    const LinearWeights& w = weights_.output;
    context_.ops.linear_backward_input(context_.op, chunk_of(dnormed_, chunk), logits, w.weight.value,
                                       w.prepared, TensorView(), kernels::Epilogue::none,
                                       kernels::Accumulate::overwrite);
    context_.ops.linear_backward_weight(context_.op, w.weight.gradient, TensorView(), logits,
                                        chunk_of(normed_, chunk),
                                        chunk ? kernels::Accumulate::add : accumulate);
}

void LossHead::reduce(const char* label) {
    context_.tp.all_reduce_sum(dnormed_, label);
}

void LossHead::backward_norm(TensorView dx, TensorView x, kernels::Accumulate accumulate) {
    norm_backward(context_, weights_.norm, dx, TensorView(), dnormed_, x, mean_, rstd_, accumulate);
}

TensorView LossHead::row_logits(std::int64_t row) {
    context_.ops.linear_forward(context_.op, logits_.rows(0, 1), TensorView(), normed_.rows(row, 1),
                                weights_.output.weight.value, weights_.output.prepared, TensorView(),
                                kernels::Epilogue::none);
    return logits_.rows(0, 1);
}

}  // namespace escalier::model
