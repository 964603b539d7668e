#include "plan/op_work.h"

#include <algorithm>

#include "config/model_facts.h"

namespace escalier::plan {

namespace {

constexpr double gradient_element = 4;  // main gradients are fp32

// y[m,n] = x[m,k] w[k,n]
Op product(const WorkShape& s, double m, double n, double k) {
    return {OpKind::matmul, 2 * m * n * k, s.element * (m * k + k * n + m * n)};
}
// dw[n,k] += dy[rows,n] x[rows,k], read and written in fp32
Op weight_gradient(const WorkShape& s, double n, double k) {
    return {OpKind::matmul, 2 * s.rows * n * k, s.element * s.rows * (n + k) + 2 * gradient_element * n * k};
}
// `passes` reads and writes of rows x width
Op sweep(const WorkShape& s, double passes, double width) {
    return {OpKind::sweep, 0, passes * s.rows * width * s.element};
}

}  // namespace

WorkShape work_shape(const config::ModelConfig& model, std::int64_t micro_batch, std::int64_t seq_len,
                     std::int64_t tp, const std::string& dtype) {
    const auto number = [](std::int64_t value) { return static_cast<double>(value); };
    WorkShape s{};
    s.rows = number(micro_batch) * number(seq_len);
    s.sequence = number(seq_len);
    s.hidden = number(model.hidden_size);
    s.attention = number(model.num_heads * model.head_dim) / number(tp);
    s.keys = number(std::max<std::int64_t>(1, model.num_kv_heads / tp) * model.head_dim);
    s.ffn = number(model.ffn_size) / number(tp);
    s.vocab = number(config::padded_vocab(model.vocab_size, tp)) / number(tp);
    s.element = dtype == "bf16" ? 2 : 4;
    s.gpt2 = model.arch == config::Arch::gpt2;
    s.qk_norm = model.qk_norm;
    s.dropout = model.dropout > 0;
    return s;
}

Ops attention_forward(const WorkShape& s) {
    return {{OpKind::attention, 2 * s.rows * s.sequence * s.attention,
             s.element * s.rows * (s.qkv() + s.attention)}};
}

Ops layer_forward(const WorkShape& s) {
    Ops ops = attention_forward(s);
    ops.push_back(sweep(s, 2, s.hidden));  // norm
    ops.push_back(product(s, s.rows, s.qkv(), s.hidden));
    if (s.qk_norm) ops.push_back(sweep(s, 2, s.qkv()));
    if (!s.gpt2) ops.push_back(sweep(s, 2, s.attention + s.keys));  // RoPE
    ops.push_back(product(s, s.rows, s.hidden, s.attention));
    if (s.dropout) ops.push_back(sweep(s, 4, s.hidden));
    ops.push_back(sweep(s, 4, s.hidden));  // residual and norm: two read, two written
    ops.push_back(product(s, s.rows, s.up(), s.hidden));
    ops.push_back(s.gpt2 ? sweep(s, 1, s.ffn) : sweep(s, 3, s.ffn));  // GELU's second output; SwiGLU
    ops.push_back(product(s, s.rows, s.hidden, s.ffn));
    ops.push_back(sweep(s, 3, s.hidden));  // residual
    return ops;
}

Ops layer_input_gradient(const WorkShape& s) {
    Ops ops;
    ops.push_back(product(s, s.rows, s.ffn, s.hidden));
    ops.push_back(s.gpt2 ? sweep(s, 1, s.ffn) : sweep(s, 5, s.ffn));  // GELU reads its input; SwiGLU
    ops.push_back(product(s, s.rows, s.hidden, s.up()));
    ops.push_back(sweep(s, 4, s.hidden));  // norm: three read, one written
    if (s.dropout) ops.push_back(sweep(s, 8, s.hidden));
    ops.push_back(product(s, s.rows, s.attention, s.hidden));
    // Five products where the forward pass has two.
    ops.push_back({OpKind::attention, 5 * s.rows * s.sequence * s.attention,
                   s.element * s.rows * (2 * s.qkv() + 2 * s.attention)});
    if (!s.gpt2) ops.push_back(sweep(s, 2, s.attention + s.keys));
    if (s.qk_norm) ops.push_back(sweep(s, 3, s.qkv()));
    ops.push_back(product(s, s.rows, s.hidden, s.qkv()));
    ops.push_back(sweep(s, 4, s.hidden));
    return ops;
}

Ops layer_weight_gradient(const WorkShape& s) {
    return {weight_gradient(s, s.hidden, s.ffn), weight_gradient(s, s.up(), s.hidden),
            weight_gradient(s, s.hidden, s.attention), weight_gradient(s, s.qkv(), s.hidden)};
}

Ops embedding_forward(const WorkShape& s) {
    Ops ops = {sweep(s, 2, s.hidden)};
    if (s.gpt2) ops.push_back(sweep(s, 3, s.hidden));  // positions
    return ops;
}

Ops embedding_backward(const WorkShape& s) {
    const double rows = (s.gpt2 ? 2 : 1) * s.rows;  // tokens and positions
    return {{OpKind::sweep, 0, rows * s.hidden * (s.element + 2 * gradient_element)}};
}

Ops head(const WorkShape& s) {
    return {sweep(s, 2, s.hidden),                  // norm
            product(s, s.rows, s.vocab, s.hidden),  // logits
            sweep(s, 1, s.vocab),                   // statistics
            sweep(s, 2, s.vocab),                   // logits become their gradients
            product(s, s.rows, s.hidden, s.vocab),
            weight_gradient(s, s.vocab, s.hidden),
            sweep(s, 3, s.hidden)};  // norm backward
}

double seconds(const Ops& ops, const Hardware& hardware, const std::string& dtype) {
    double sum = 0;
    for (const Op& op : ops) {
        const double rate =
            op.kind == OpKind::attention ? hardware.attention_flops(dtype) : hardware.matmul_flops(dtype);
        sum += std::max(op.flops / rate, op.bytes / hardware.memory_bytes_per_s());
    }
    return sum;
}

}  // namespace escalier::plan
