// Ops of a transformer block: norms, linear layers, positions, attention, activations.
#include "kernel_case.h"

namespace escalier::bench {
namespace {

using kernels::Accumulate;
using kernels::Epilogue;
using kernels::Ops;

double size_in_bytes(std::initializer_list<TensorView> views) {
    double sum = 0;
    for (const TensorView& view : views) sum += static_cast<double>(view.bytes());
    return sum;
}

class Layer {
 public:
    Layer(const CaseSettings& settings, const Ops& ops, const std::shared_ptr<CaseMemory>& memory,
          std::vector<KernelCase>& cases)
        : s_(settings.shape), storage_(settings.storage), ops_(ops), memory_(memory), cases_(cases) {}

    void linear(const std::string& name, std::int64_t rows, std::int64_t n, std::int64_t k, bool has_bias,
                Epilogue forward, Epilogue backward) {
        const TensorView x = take({rows, k}), w = main_copy({n, k}), y = take({rows, n}),
                         dy = take({rows, n});
        const TensorView bias = has_bias ? take({n}) : TensorView();
        const TensorView pre = forward == Epilogue::gelu ? take({rows, n}) : TensorView();
        const TensorView pre_of_x = backward == Epilogue::gelu ? take({rows, k}) : TensorView();
        const TensorView dx = take({rows, k}), dw = main_copy({n, k});
        const TensorView dbias = has_bias ? main_copy({n}) : TensorView();
        const std::int64_t elements = ops_.prepared_weight_elements(n, k, storage_);
        const TensorView prepared = elements ? take({n, k}, Contents::zeros) : TensorView();
        if (elements)
            add(name + " prepare", 0, size_in_bytes({w, prepared}), {prepared},
                [=](const OpContext& c, const Ops& ops) { ops.prepare_weight(c, prepared, w); });
        const TensorView& read = elements ? prepared : w;
        const double flops = 2.0 * static_cast<double>(rows * n) * static_cast<double>(k);
        add(name + " forward", flops, size_in_bytes({x, read, bias, y, pre}), outputs(y, pre),
            [=](const OpContext& c, const Ops& ops) {
                ops.linear_forward(c, y, pre, x, w, prepared, bias, forward);
            });
        add(name + " backward input", flops, size_in_bytes({dy, read, pre_of_x, dx}), {dx},
            [=](const OpContext& c, const Ops& ops) {
                ops.linear_backward_input(c, dx, dy, w, prepared, pre_of_x, backward, Accumulate::overwrite);
            });
        add(name + " backward weight", flops, size_in_bytes({dy, x, dw, dbias}), outputs(dw, dbias),
            [=](const OpContext& c, const Ops& ops) {
                ops.linear_backward_weight(c, dw, dbias, dy, x, Accumulate::overwrite);
            });
    }

    void attention() {
        const TensorView qkv = take({s_.rows(), s_.qkv()}), dqkv = take({s_.rows(), s_.qkv()});
        const TensorView out = take({s_.rows(), s_.hidden}), dout = take({s_.rows(), s_.hidden});
        const TensorView lse = memory_->take(DType::f32, {s_.batch, s_.heads, s_.sequence});
        const double pairs = static_cast<double>(s_.batch * s_.hidden) * static_cast<double>(s_.sequence) *
                             static_cast<double>(s_.sequence + 1) / 2;
        const BenchShape s = s_;
        add("attention forward", 4 * pairs, size_in_bytes({qkv, out, lse}), {out, lse},
            [=](const OpContext& c, const Ops& ops) {
                ops.attention_forward(c, out, lse, qkv, s.batch, s.sequence, s.heads, s.kv_heads);
            });
        add("attention backward", 10 * pairs, size_in_bytes({qkv, out, dout, lse, dqkv}), {dqkv},
            [=](const OpContext& c, const Ops& ops) {
                ops.attention_backward(c, dqkv, dout, out, lse, qkv, s.batch, s.sequence, s.heads,
                                       s.kv_heads);
            });
    }

    void layernorm() {
        const std::int64_t rows = s_.rows(), columns = s_.hidden;
        const TensorView x = take({rows, columns}), delta = take({rows, columns}), y = take({rows, columns});
        const TensorView sum = take({rows, columns}), dy = take({rows, columns}), dx = take({rows, columns});
        const TensorView w = main_copy({columns}), b = main_copy({columns}), delta_bias = take({columns});
        const TensorView dw = main_copy({columns}), db = main_copy({columns});
        const TensorView mean = main_copy({rows}), rstd = main_copy({rows});
        add("layernorm forward", 0, size_in_bytes({x, y, mean, rstd}), {y, mean, rstd},
            [=](const OpContext& c, const Ops& ops) {
                ops.layernorm_forward(c, y, mean, rstd, x, w, b, 1e-5f);
            });
        add("residual_layernorm forward", 0, size_in_bytes({x, delta, sum, y, mean, rstd}),
            {sum, y, mean, rstd}, [=](const OpContext& c, const Ops& ops) {
                ops.residual_layernorm_forward(c, sum, y, mean, rstd, x, delta, delta_bias, w, b, 1e-5f);
            });
        add("layernorm backward", 0, size_in_bytes({dy, sum, x, mean, rstd, dx, dw, db}), {dx, dw, db},
            [=](const OpContext& c, const Ops& ops) {
                ops.layernorm_backward(c, dx, dw, db, x, dy, sum, mean, rstd, w, Accumulate::overwrite);
            });
    }

    void rmsnorm() {
        const std::int64_t rows = s_.rows(), columns = s_.hidden;
        const TensorView x = take({rows, columns}), delta = take({rows, columns}), y = take({rows, columns});
        const TensorView sum = take({rows, columns}), dy = take({rows, columns}), dx = take({rows, columns});
        const TensorView w = main_copy({columns}), dw = main_copy({columns}), rstd = main_copy({rows});
        add("rmsnorm forward", 0, size_in_bytes({x, y, rstd}), {y, rstd},
            [=](const OpContext& c, const Ops& ops) { ops.rmsnorm_forward(c, y, rstd, x, w, 1e-5f); });
        add("residual_rmsnorm forward", 0, size_in_bytes({x, delta, sum, y, rstd}), {sum, y, rstd},
            [=](const OpContext& c, const Ops& ops) {
                ops.residual_rmsnorm_forward(c, sum, y, rstd, x, delta, TensorView(), w, 1e-5f);
            });
        add("rmsnorm backward", 0, size_in_bytes({dy, sum, x, rstd, dx, dw}), {dx, dw},
            [=](const OpContext& c, const Ops& ops) {
                ops.rmsnorm_backward(c, dx, dw, x, dy, sum, rstd, w, Accumulate::overwrite);
            });
    }

    void positions() {
        const std::int64_t size = s_.head_size();
        const TensorView qkv = take({s_.rows(), s_.qkv()}), normed = take({s_.rows(), s_.qkv()});
        const TensorView dqkv = take({s_.rows(), s_.qkv()}), table = main_copy({s_.sequence, size});
        const TensorView rstd = main_copy({s_.rows(), s_.heads + s_.kv_heads});
        const TensorView wq = main_copy({size}), wk = main_copy({size}), dwq = main_copy({size}),
                         dwk = main_copy({size});
        const BenchShape s = s_;
        const double rotated = 2.0 * static_cast<double>(s_.rows() * (s_.heads + s_.kv_heads) * size) *
                               static_cast<double>(size_of(storage_));
        add("rope table", 0, size_in_bytes({table}), {table}, [=](const OpContext& c, const Ops& ops) {
            ops.rope_table(c, table, 10000.0, kernels::RopeScalingParameters{});
        });
        add("rope forward", 0, rotated, {qkv}, [=](const OpContext& c, const Ops& ops) {
            ops.rope_forward(c, qkv, table, s.heads, s.kv_heads, s.sequence);
        });
        add("rope backward", 0, rotated, {qkv}, [=](const OpContext& c, const Ops& ops) {
            ops.rope_backward(c, qkv, table, s.heads, s.kv_heads, s.sequence);
        });
        add("qk_norm forward", 0, size_in_bytes({qkv, normed, rstd}), {normed, rstd},
            [=](const OpContext& c, const Ops& ops) {
                ops.qk_norm_forward(c, normed, rstd, qkv, wq, wk, s.heads, s.kv_heads, 1e-5f);
            });
        add("qk_norm backward", 0, size_in_bytes({dqkv, qkv, dqkv, rstd}), {dqkv, dwq, dwk},
            [=](const OpContext& c, const Ops& ops) {
                ops.qk_norm_backward(c, dqkv, dwq, dwk, qkv, rstd, wq, wk, s.heads, s.kv_heads,
                                     Accumulate::overwrite);
            });
    }

    void swiglu() {
        const TensorView gate_up = take({s_.rows(), 2 * s_.ffn}), y = take({s_.rows(), s_.ffn});
        const TensorView dgate_up = take({s_.rows(), 2 * s_.ffn}), dy = take({s_.rows(), s_.ffn});
        add("swiglu forward", 0, size_in_bytes({gate_up, y}), {y},
            [=](const OpContext& c, const Ops& ops) { ops.swiglu_forward(c, y, gate_up); });
        add("swiglu backward", 0, size_in_bytes({gate_up, dy, dgate_up}), {dgate_up},
            [=](const OpContext& c, const Ops& ops) { ops.swiglu_backward(c, dgate_up, dy, gate_up); });
    }

    void dropout_and_residual() {
        const TensorView x = take({s_.rows(), s_.hidden}), bias = take({s_.hidden}),
                         residual = take({s_.rows(), s_.hidden});
        const TensorView sum = take({s_.rows(), s_.hidden}), first = memory_->take_count(5);
        const std::int64_t sequence = s_.sequence;
        add("residual_add", 0, size_in_bytes({residual, x, sum}), {sum},
            [=](const OpContext& c, const Ops& ops) { ops.residual_add(c, sum, residual, x, bias); });
        add("dropout", 0, 2 * size_in_bytes({x}), {x}, [=](const OpContext& c, const Ops& ops) {
            ops.dropout(c, x, TensorView(), {1, 2, static_cast<const std::uint64_t*>(first.data())}, 0.1f,
                        sequence);
        });
    }

 private:
    TensorView take(Shape shape, Contents contents = Contents::signed_numbers) {
        return memory_->take(storage_, shape, contents);
    }
    TensorView main_copy(Shape shape) { return memory_->take(DType::f32, shape); }
    static std::vector<TensorView> outputs(TensorView always, TensorView perhaps) {
        return perhaps.has_data() ? std::vector{always, perhaps} : std::vector{always};
    }
    void add(const std::string& name, double flops, double bytes, std::vector<TensorView> outputs,
             std::function<void(const OpContext&, const Ops&)> run) {
        const Ops& ops = ops_;
        cases_.push_back({name, flops, bytes, [&ops, run](const OpContext& context) { run(context, ops); },
                          std::move(outputs), memory_});
    }

    BenchShape s_;
    DType storage_;
    const Ops& ops_;
    std::shared_ptr<CaseMemory> memory_;
    std::vector<KernelCase>& cases_;
};

}  // namespace

void add_layer_cases(const CaseSettings& settings, const Ops& ops, const std::shared_ptr<CaseMemory>& memory,
                     std::vector<KernelCase>& cases) {
    const BenchShape& s = settings.shape;
    Layer layer(settings, ops, memory, cases);
    const bool bias = !s.gated;
    const Epilogue activation = s.gated ? Epilogue::none : Epilogue::gelu;
    layer.linear("qkv", s.rows(), s.qkv(), s.hidden, bias, Epilogue::none, Epilogue::none);
    layer.linear("attention out", s.rows(), s.hidden, s.hidden, bias, Epilogue::none, Epilogue::none);
    layer.linear("mlp up", s.rows(), s.gated ? 2 * s.ffn : s.ffn, s.hidden, bias, activation, Epilogue::none);
    layer.linear("mlp down", s.rows(), s.hidden, s.ffn, bias, Epilogue::none, activation);
    layer.linear("head", settings.head_rows, s.vocabulary, s.hidden, false, Epilogue::none, Epilogue::none);
    layer.attention();
    if (s.gated) {
        layer.rmsnorm();
        layer.positions();
        layer.swiglu();
    } else {
        layer.layernorm();
    }
    layer.dropout_and_residual();
}

}  // namespace escalier::bench
