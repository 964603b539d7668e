// The op table: one reference per op and backend. A backend that lacks a twin does not compile.
//
// Dimension letters, used in all op headers:
//   B micro-batch size   T sequence length   R = B*T rows   C hidden   NH heads   NKV key/value heads   HS
//   head size F ffn width   V vocabulary   K, N extents of a linear's input and output
// A tensor-parallel rank sees its shard: "NH" there is NH/tp, "V" is V/tp, and so on.
//
// Rules for every op: the first argument says where it runs; views are dense and row-major; accumulation is
// fp32 unless its header says otherwise; a result depends on neither the number of threads nor any address.
#pragma once

#include "kernels/accumulate.h"
#include "kernels/attention.h"
#include "kernels/cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/layernorm.h"
#include "kernels/linear.h"
#include "kernels/optimizer_step.h"
#include "kernels/qk_norm.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"

namespace escalier::kernels {

struct Ops {
    EmbeddingForward& embedding_forward;
    EmbeddingBackward& embedding_backward;
    PositionForward& position_forward;
    PositionBackward& position_backward;
    LayernormForward& layernorm_forward;
    ResidualLayernormForward& residual_layernorm_forward;
    LayernormBackward& layernorm_backward;
    RmsnormForward& rmsnorm_forward;
    ResidualRmsnormForward& residual_rmsnorm_forward;
    RmsnormBackward& rmsnorm_backward;
    LinearForward& linear_forward;
    LinearBackwardInput& linear_backward_input;
    LinearBackwardWeight& linear_backward_weight;
    PreparedWeightElements& prepared_weight_elements;
    PrepareWeight& prepare_weight;
    SwigluForward& swiglu_forward;
    SwigluBackward& swiglu_backward;
    RopeTable& rope_table;
    Rope& rope_forward;
    Rope& rope_backward;
    QkNormForward& qk_norm_forward;
    QkNormBackward& qk_norm_backward;
    AttentionForward& attention_forward;
    AttentionBackward& attention_backward;
    CrossEntropyStatistics& cross_entropy_statistics;
    CrossEntropyFinish& cross_entropy_finish;
    SumLosses& sum_losses;
    Dropout& dropout;
    ResidualAdd& residual_add;
    Fill& fill;
    Copy& copy;
    Add& add;
    SumParts& sum_parts;
    SumOfSquares& sum_of_squares;
    CountNonfinite& count_nonfinite;
    AdamwStep& adamw_step;
    SgdStep& sgd_step;
};

// The largest extents that ops will meet.
struct WorkExtent {
    std::int64_t rows;         // R
    std::int64_t max_columns;  // of any matrix
    std::int64_t batch, sequence;
    std::int64_t heads, head_size;
};

// Bytes of OpContext scratch that each thread needs.
std::size_t cpu_scratch_bytes_per_thread(const WorkExtent& extent);

// The CPU twins. fp32 storage only, but that copy converts and optimizers write bf16 shadows; a view of
// another dtype is an InternalError.
const Ops& cpu_ops();

}  // namespace escalier::kernels
