// What the ops of a model compute and move, one tensor rank and one micro-batch. Dimension letters are those
// of kernels/ops.h, R = B T rows.
#pragma once

#include <cstdint>
#include <vector>

#include "config/job_spec.h"
#include "plan/hardware.h"

namespace escalier::plan {

enum class OpKind : std::uint8_t {
    matmul,
    attention,  // its causal half
    sweep       // element by element: bytes alone count
};

struct Op {
    OpKind kind;
    double flops;
    double bytes;  // read and written, each operand once
};
using Ops = std::vector<Op>;

// Extents of one tensor rank.
struct WorkShape {
    double rows, sequence;   // R, T
    double hidden;           // C
    double attention, keys;  // NH HS / tp, max(1, NKV / tp) HS
    double ffn;              // F / tp
    double vocab;            // padded V / tp
    double element;          // bytes of an activation
    bool gpt2, qk_norm, dropout;
    double qkv() const { return attention + 2 * keys; }
    double up() const { return gpt2 ? ffn : 2 * ffn; }  // llama: gate and up
    double boundary_bytes() const { return rows * hidden * element; }
};

WorkShape work_shape(const config::ModelConfig& model, std::int64_t micro_batch, std::int64_t seq_len,
                     std::int64_t tp, const std::string& dtype);

Ops layer_forward(const WorkShape& shape);
Ops layer_input_gradient(const WorkShape& shape);
Ops layer_weight_gradient(const WorkShape& shape);
Ops attention_forward(const WorkShape& shape);  // what recompute: attention does again
Ops embedding_forward(const WorkShape& shape);
Ops embedding_backward(const WorkShape& shape);
Ops head(const WorkShape& shape);  // forward and both halves of its backward

// Each op takes as long as its FLOPs or its bytes, whichever is longer.
double seconds(const Ops& ops, const Hardware& hardware, const std::string& dtype);

}  // namespace escalier::plan
