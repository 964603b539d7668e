// A transformer block: norm, attention, residual, norm, MLP, residual; gpt2 and llama alike. The backward
// pass comes in two halves: input gradients (I), then weight gradients (W), which read only linears' inputs
// and output gradients.
//
// With tensor parallelism, `delta` (forward) and `dnorm` (backward) are partial sums when a part below ends;
// the caller sums them over the tensor group before the next part.
#pragma once

#include "device/arena.h"
#include "model/context.h"
#include "model/registry.h"

namespace escalier::model {

// Kept from F to I. Shapes are those of context.shape.
struct BlockActivations {
    TensorView output;  // residual stream behind the block; without data where the caller names another place
    TensorView mid;     // residual stream between attention and MLP
    TensorView attention_mean, attention_rstd, mlp_mean, mlp_rstd;
    TensorView raw_qkv, qk_rstd;  // Qwen3 only: before the head norms
    TensorView qkv;
    TensorView lse;
    TensorView pre;  // gpt2: before GELU [R,F]; llama: gate and up [R,2F]
};

// Inputs of the four linears, kept from F to W.
struct BlockLinearInputs {
    TensorView attention_norm, attention, mlp_norm, activation;
};

// Gradients of the four linears' outputs, kept from I to W. `mid` doubles as the residual stream's gradient.
struct BlockOutputGradients {
    TensorView qkv, mid, pre;
    TensorView projection, down;  // with dropout only: else `mid` and the block's incoming gradient serve
};

// Buffers that live inside one part, shared by all blocks of a rank.
struct BlockScratch {
    TensorView delta;        // [R,C]
    TensorView dnorm;        // [R,C]
    TensorView dattention;   // [R, NH HS]
    TensorView dactivation;  // [R,F], llama only
};

// with_output, with_attention: whether the block's output, and what attention leaves, have a place of their
// own here.
BlockActivations take_activations(device::Arena& arena, const ModelContext& context, bool with_output = true,
                                  bool with_attention = true);
BlockLinearInputs take_linear_inputs(device::Arena& arena, const ModelContext& context,
                                     bool with_attention = true);
BlockOutputGradients take_output_gradients(device::Arena& arena, const ModelContext& context);
BlockScratch take_block_scratch(device::Arena& arena, const ModelContext& context);

// One micro-batch's tensors at one block.
struct BlockState {
    TensorView input, output;  // residual stream [R,C]
    BlockActivations a;
    BlockLinearInputs x;
    BlockOutputGradients g;
    TensorView doutput, dinput;  // gradients of output and input
    TensorView first_sample;     // u64 [1]
};

class Block {
 public:
    Block(const ModelContext& context, BlockWeights weights, const BlockScratch& scratch,
          TensorView rope_table, std::int64_t layer);

    void prepare_weights() const;

    void forward_attention(const BlockState& s) const;                           // leaves delta
    void forward_mlp_hidden(const BlockState& s, const StepInputs& step) const;  // takes delta
    void forward_mlp_output(const BlockState& s) const;                          // leaves delta
    void forward_output(const BlockState& s, const StepInputs& step) const;      // takes delta
    void recompute_attention(const BlockState& s) const;                         // attention and lse from qkv

    void backward_mlp(const BlockState& s, const StepInputs& step) const;  // leaves dnorm
    void backward_attention(const BlockState& s, const StepInputs& step,
                            kernels::Accumulate accumulate) const;
    void backward_input(const BlockState& s, kernels::Accumulate accumulate) const;  // takes dnorm
    void weight_gradients_mlp(const BlockState& s, const StepInputs& step,
                              kernels::Accumulate accumulate) const;
    void weight_gradients_attention(const BlockState& s, const StepInputs& step,
                                    kernels::Accumulate accumulate) const;

 private:
    TensorView down_gradient(const BlockState& s, const StepInputs& step) const;
    TensorView projection_gradient(const BlockState& s, const StepInputs& step) const;

    const ModelContext& context_;
    BlockWeights weights_;
    const BlockScratch& scratch_;
    TensorView rope_table_;
    DropoutSite attention_dropout_, mlp_dropout_;
};

// y = norm(x) and its backward pass, of the model's kind.
void norm_forward(const ModelContext& context, const NormWeights& weights, TensorView y, TensorView mean,
                  TensorView rstd, TensorView x);
void norm_backward(const ModelContext& context, const NormWeights& weights, TensorView dx,
                   TensorView dresidual, TensorView dy, TensorView x, TensorView mean, TensorView rstd,
                   kernels::Accumulate accumulate);

}  // namespace escalier::model
