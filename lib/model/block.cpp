#include "model/block.h"

#include <string>
#include <utility>

namespace escalier::model {

namespace {

using kernels::Accumulate;
using kernels::Epilogue;

const TensorView none;

void linear_forward(const ModelContext& c, const LinearWeights& w, TensorView y, TensorView x) {
    c.ops.linear_forward(c.op, y, none, x, w.weight.value, w.prepared, w.product_bias(), Epilogue::none);
}

// A row-parallel linear's output is a partial sum; its bias is added once, after the sum.
void partial_linear_forward(const ModelContext& c, const LinearWeights& w, TensorView y, TensorView x) {
    c.ops.linear_forward(c.op, y, none, x, w.weight.value, w.prepared, none, Epilogue::none);
}

void linear_backward_input(const ModelContext& c, const LinearWeights& w, TensorView dx, TensorView dy) {
    c.ops.linear_backward_input(c.op, dx, dy, w.weight.value, w.prepared, none, Epilogue::none,
                                Accumulate::overwrite);
}

void linear_backward_weight(const ModelContext& c, const LinearWeights& w, TensorView dy, TensorView x,
                            Accumulate accumulate) {
    c.ops.linear_backward_weight(c.op, w.weight.gradient, w.bias.gradient, dy, x, accumulate);
}

void prepare(const ModelContext& c, const LinearWeights& w) {
    if (w.prepared.has_data()) c.ops.prepare_weight(c.op, w.prepared, w.weight.value);
    if (w.prepared_bias.has_data()) c.ops.copy(c.op, w.prepared_bias, w.bias.value);
}

}  // namespace

BlockActivations take_activations(device::Arena& arena, const ModelContext& c, bool with_output,
                                  bool with_attention) {
    const ModelShape& s = c.shape;
    const auto take = [&](Shape shape) { return arena.take(c.storage, shape); };
    const auto take_statistics = [&](Shape shape) { return arena.take(DType::f32, shape); };
    BlockActivations a;
    if (with_output) a.output = take({s.rows, s.hidden});
    a.mid = take({s.rows, s.hidden});
    if (c.gpt2()) {
        a.attention_mean = take_statistics({s.rows});
        a.mlp_mean = take_statistics({s.rows});
    }
    a.attention_rstd = take_statistics({s.rows});
    a.mlp_rstd = take_statistics({s.rows});
    if (c.config.qk_norm) {
        a.raw_qkv = take({s.rows, s.qkv_width()});
        a.qk_rstd = take_statistics({s.rows, s.heads + s.kv_heads});
    }
    a.qkv = take({s.rows, s.qkv_width()});
    if (with_attention) a.lse = take_statistics({s.batch, s.heads, s.sequence});
    a.pre = take({s.rows, c.gpt2() ? s.ffn : 2 * s.ffn});
    return a;
}

BlockLinearInputs take_linear_inputs(device::Arena& arena, const ModelContext& c, bool with_attention) {
    const ModelShape& s = c.shape;
    const auto take = [&](std::int64_t width) { return arena.take(c.storage, {s.rows, width}); };
    BlockLinearInputs x;
    x.attention_norm = take(s.hidden);
    if (with_attention) x.attention = take(s.attention_width());
    x.mlp_norm = take(s.hidden);
    x.activation = take(s.ffn);
    return x;
}

BlockOutputGradients take_output_gradients(device::Arena& arena, const ModelContext& c) {
    const ModelShape& s = c.shape;
    const auto take = [&](std::int64_t width) { return arena.take(c.storage, {s.rows, width}); };
    BlockOutputGradients g;
    g.qkv = take(s.qkv_width());
    g.mid = take(s.hidden);
    g.pre = take(c.gpt2() ? s.ffn : 2 * s.ffn);
    if (c.config.dropout > 0) {
        g.projection = take(s.hidden);
        g.down = take(s.hidden);
    }
    return g;
}

BlockScratch take_block_scratch(device::Arena& arena, const ModelContext& c) {
    const ModelShape& s = c.shape;
    const auto take = [&](std::int64_t width) { return arena.take(c.storage, {s.rows, width}); };
    BlockScratch scratch;
    scratch.delta = take(s.hidden);
    scratch.dnorm = take(s.hidden);
    scratch.dattention = take(s.attention_width());
    if (!c.gpt2()) scratch.dactivation = take(s.ffn);
    return scratch;
}

void norm_forward(const ModelContext& c, const NormWeights& w, TensorView y, TensorView mean, TensorView rstd,
                  TensorView x) {
    if (c.gpt2())
        c.ops.layernorm_forward(c.op, y, mean, rstd, x, w.weight.value, w.bias.value, c.eps());
    else
        c.ops.rmsnorm_forward(c.op, y, rstd, x, w.weight.value, c.eps());
}

void norm_backward(const ModelContext& c, const NormWeights& w, TensorView dx, TensorView dresidual,
                   TensorView dy, TensorView x, TensorView mean, TensorView rstd, Accumulate accumulate) {
    if (c.gpt2())
        c.ops.layernorm_backward(c.op, dx, w.weight.gradient, w.bias.gradient, dresidual, dy, x, mean, rstd,
                                 w.weight.value, accumulate);
    else
        c.ops.rmsnorm_backward(c.op, dx, w.weight.gradient, dresidual, dy, x, rstd, w.weight.value,
                               accumulate);
}

Block::Block(const ModelContext& context, BlockWeights weights, const BlockScratch& scratch,
             TensorView rope_table, std::int64_t layer)
    : context_(context), weights_(std::move(weights)), scratch_(scratch), rope_table_(rope_table) {
    const float probability = static_cast<float>(context.config.dropout);
    const std::string name = "layer " + std::to_string(layer);
    attention_dropout_ = {stream_of(name + " attention dropout"), probability};
    mlp_dropout_ = {stream_of(name + " mlp dropout"), probability};
}

void Block::prepare_weights() const {
    for (const LinearWeights* w : {&weights_.qkv, &weights_.projection, &weights_.up, &weights_.down})
        prepare(context_, *w);
}

void Block::forward_attention(const BlockState& s) const {
    const ModelContext& c = context_;
    norm_forward(c, weights_.attention_norm, s.x.attention_norm, s.a.attention_mean, s.a.attention_rstd,
                 s.input);
    if (c.config.qk_norm) {
        linear_forward(c, weights_.qkv, s.a.raw_qkv, s.x.attention_norm);
        c.ops.qk_norm_forward(c.op, s.a.qkv, s.a.qk_rstd, s.a.raw_qkv, weights_.query_norm.value,
                              weights_.key_norm.value, c.shape.heads, c.shape.kv_heads, c.eps());
    } else {
        linear_forward(c, weights_.qkv, s.a.qkv, s.x.attention_norm);
    }
    if (!c.gpt2())
        c.ops.rope_forward(c.op, s.a.qkv, rope_table_, c.shape.heads, c.shape.kv_heads, c.shape.sequence);
    recompute_attention(s);
    partial_linear_forward(c, weights_.projection, scratch_.delta, s.x.attention);
}

void Block::recompute_attention(const BlockState& s) const {
    const ModelShape& shape = context_.shape;
    context_.ops.attention_forward(context_.op, s.x.attention, s.a.lse, s.a.qkv, shape.batch, shape.sequence,
                                   shape.heads, shape.kv_heads);
}

void Block::forward_mlp_hidden(const BlockState& s, const StepInputs& step) const {
    const ModelContext& c = context_;
    TensorView bias = weights_.projection.bias.value;
    if (attention_dropout_.active(step)) {
        attention_dropout_.apply(c, scratch_.delta, bias, s.first_sample);
        bias = none;
    }
    const NormWeights& norm = weights_.mlp_norm;
    if (c.gpt2()) {
        c.ops.residual_layernorm_forward(c.op, s.a.mid, s.x.mlp_norm, s.a.mlp_mean, s.a.mlp_rstd, s.input,
                                         scratch_.delta, bias, norm.weight.value, norm.bias.value, c.eps());
        c.ops.linear_forward(c.op, s.x.activation, s.a.pre, s.x.mlp_norm, weights_.up.weight.value,
                             weights_.up.prepared, weights_.up.product_bias(), Epilogue::gelu);
    } else {
        c.ops.residual_rmsnorm_forward(c.op, s.a.mid, s.x.mlp_norm, s.a.mlp_rstd, s.input, scratch_.delta,
                                       bias, norm.weight.value, c.eps());
        linear_forward(c, weights_.up, s.a.pre, s.x.mlp_norm);
        c.ops.swiglu_forward(c.op, s.x.activation, s.a.pre);
    }
}

void Block::forward_mlp_output(const BlockState& s) const {
    partial_linear_forward(context_, weights_.down, scratch_.delta, s.x.activation);
}

void Block::forward_output(const BlockState& s, const StepInputs& step) const {
    TensorView bias = weights_.down.bias.value;
    if (mlp_dropout_.active(step)) {
        mlp_dropout_.apply(context_, scratch_.delta, bias, s.first_sample);
        bias = none;
    }
    context_.ops.residual_add(context_.op, s.output, s.a.mid, scratch_.delta, bias);
}

TensorView Block::down_gradient(const BlockState& s, const StepInputs& step) const {
    return mlp_dropout_.active(step) ? s.g.down : s.doutput;
}

TensorView Block::projection_gradient(const BlockState& s, const StepInputs& step) const {
    return attention_dropout_.active(step) ? s.g.projection : s.g.mid;
}

void Block::backward_mlp(const BlockState& s, const StepInputs& step) const {
    const ModelContext& c = context_;
    if (mlp_dropout_.active(step)) {
        c.ops.copy(c.op, s.g.down, s.doutput);
        mlp_dropout_.apply(c, s.g.down, none, s.first_sample);
    }
    const TensorView dy = down_gradient(s, step);
    if (c.gpt2()) {
        c.ops.linear_backward_input(c.op, s.g.pre, dy, weights_.down.weight.value, weights_.down.prepared,
                                    s.a.pre, Epilogue::gelu, Accumulate::overwrite);
    } else {
        linear_backward_input(c, weights_.down, scratch_.dactivation, dy);
        c.ops.swiglu_backward(c.op, s.g.pre, scratch_.dactivation, s.a.pre);
    }
    linear_backward_input(c, weights_.up, scratch_.dnorm, s.g.pre);
}

void Block::backward_attention(const BlockState& s, const StepInputs& step, Accumulate accumulate) const {
    const ModelContext& c = context_;
    const ModelShape& shape = c.shape;
    norm_backward(c, weights_.mlp_norm, s.g.mid, s.doutput, scratch_.dnorm, s.a.mid, s.a.mlp_mean,
                  s.a.mlp_rstd, accumulate);
    if (attention_dropout_.active(step)) {
        c.ops.copy(c.op, s.g.projection, s.g.mid);
        attention_dropout_.apply(c, s.g.projection, none, s.first_sample);
    }
    linear_backward_input(c, weights_.projection, scratch_.dattention, projection_gradient(s, step));
    c.ops.attention_backward(c.op, s.g.qkv, scratch_.dattention, s.x.attention, s.a.lse, s.a.qkv, shape.batch,
                             shape.sequence, shape.heads, shape.kv_heads);
    if (!c.gpt2())
        c.ops.rope_backward(c.op, s.g.qkv, rope_table_, shape.heads, shape.kv_heads, shape.sequence);
    if (c.config.qk_norm)
        c.ops.qk_norm_backward(c.op, s.g.qkv, weights_.query_norm.gradient, weights_.key_norm.gradient,
                               s.a.raw_qkv, s.a.qk_rstd, weights_.query_norm.value, weights_.key_norm.value,
                               shape.heads, shape.kv_heads, accumulate);
    linear_backward_input(c, weights_.qkv, scratch_.dnorm, s.g.qkv);
}

void Block::backward_input(const BlockState& s, Accumulate accumulate) const {
    norm_backward(context_, weights_.attention_norm, s.dinput, s.g.mid, scratch_.dnorm, s.input,
                  s.a.attention_mean, s.a.attention_rstd, accumulate);
}

void Block::weight_gradients_mlp(const BlockState& s, const StepInputs& step, Accumulate accumulate) const {
    linear_backward_weight(context_, weights_.down, down_gradient(s, step), s.x.activation, accumulate);
    linear_backward_weight(context_, weights_.up, s.g.pre, s.x.mlp_norm, accumulate);
}

void Block::weight_gradients_attention(const BlockState& s, const StepInputs& step,
                                       Accumulate accumulate) const {
    linear_backward_weight(context_, weights_.projection, projection_gradient(s, step), s.x.attention,
                           accumulate);
    linear_backward_weight(context_, weights_.qkv, s.g.qkv, s.x.attention_norm, accumulate);
}

}  // namespace escalier::model
