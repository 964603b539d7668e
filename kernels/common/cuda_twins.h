// The CUDA twin of every op, one name per type of the op headers. Private to kernels/.
#pragma once

#include "kernels/cuda_sizes.h"

namespace escalier::kernels::cuda {

EmbeddingForward embedding_forward;
EmbeddingBackward embedding_backward;
PositionForward position_forward;
PositionBackward position_backward;
LayernormForward layernorm_forward;
ResidualLayernormForward residual_layernorm_forward;
LayernormBackward layernorm_backward;
RmsnormForward rmsnorm_forward;
ResidualRmsnormForward residual_rmsnorm_forward;
RmsnormBackward rmsnorm_backward;
LinearForward linear_forward;
LinearBackwardInput linear_backward_input;
LinearBackwardWeight linear_backward_weight;
PrepareWeight prepare_weight;
SwigluForward swiglu_forward;
SwigluBackward swiglu_backward;
RopeTable rope_table;
Rope rope_forward;
Rope rope_backward;
QkNormForward qk_norm_forward;
QkNormBackward qk_norm_backward;
AttentionForward attention_forward;
AttentionBackward attention_backward;
CrossEntropyStatistics cross_entropy_statistics;
CrossEntropyFinish cross_entropy_finish;
SumLosses sum_losses;
Dropout dropout;
ResidualAdd residual_add;
Fill fill;
Copy copy;
Add add;
SumParts sum_parts;
SumOfSquares sum_of_squares;
CountNonfinite count_nonfinite;
AdamwStep adamw_step;
SgdStep sgd_step;

}  // namespace escalier::kernels::cuda
