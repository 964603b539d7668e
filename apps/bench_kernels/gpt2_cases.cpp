#include <algorithm>
#include <memory>
#include <random>

#include "bench_case.h"
#include "kernels/common/sgemm.h"
#include "kernels/ops.h"

namespace escalier::bench {
namespace {

using kernels::Accumulate;
using kernels::cpu_ops;
using kernels::Epilogue;

// Zero-mean numbers of ordinary size; the memory lives as long as any case that holds it.
class Memory {
 public:
    TensorView take(Shape shape) {
        constexpr std::size_t alignment = 256;
        const auto bytes =
            (static_cast<std::size_t>(shape.elements()) * 4 + alignment - 1) / alignment * alignment;
        blocks_.emplace_back(static_cast<float*>(std::aligned_alloc(alignment, bytes)), &std::free);
        float* data = blocks_.back().get();
        for (std::int64_t i = 0; i < shape.elements(); ++i)
            data[i] = static_cast<float>((i * 2654435761u >> 8 & 0xFFFF) - 32768) / 65536.0f;
        return TensorView(data, DType::f32, shape);
    }

 private:
    std::vector<std::unique_ptr<float, decltype(&std::free)>> blocks_;
};

class Builder {
 public:
    explicit Builder(const BenchShape& shape) : s_(shape) {}

    void linear(const std::string& name, std::int64_t rows, std::int64_t n, std::int64_t k, Epilogue forward,
                Epilogue backward) {
        const TensorView x = take({rows, k}), w = take({n, k}), bias = take({n}), y = take({rows, n});
        const TensorView pre = take({rows, n}), pre_of_x = take({rows, k}), dx = take({rows, k});
        const TensorView dw = take({n, k}), dbias = take({n});
        const double flops = 2.0 * static_cast<double>(rows * n) * static_cast<double>(k);
        add(name + " forward", flops, 0, [=](const OpContext& context) {
            cpu_ops().linear_forward(context, y, pre, x, w, TensorView(), bias, forward);
        });
        add(name + " backward input", flops, 0, [=](const OpContext& context) {
            cpu_ops().linear_backward_input(context, dx, y, w, TensorView(), pre_of_x, backward,
                                            Accumulate::overwrite);
        });
        add(name + " backward weight", flops, 0, [=](const OpContext& context) {
            cpu_ops().linear_backward_weight(context, dw, dbias, y, x, Accumulate::overwrite);
        });
    }

    void attention() {
        const std::int64_t size = s_.hidden / s_.heads;
        const TensorView qkv = take({s_.rows(), 3 * s_.hidden}), dqkv = take({s_.rows(), 3 * s_.hidden});
        const TensorView out = take({s_.rows(), s_.hidden}), lse = take({s_.batch, s_.heads, s_.sequence});
        const double pairs = static_cast<double>(s_.batch * s_.heads * size) *
                             static_cast<double>(s_.sequence) * static_cast<double>(s_.sequence + 1) / 2;
        const BenchShape s = s_;
        add("attention forward", 4 * pairs, 0, [=](const OpContext& context) {
            cpu_ops().attention_forward(context, out, lse, qkv, s.batch, s.sequence, s.heads, s.heads);
        });
        add("attention backward", 10 * pairs, 0, [=](const OpContext& context) {
            cpu_ops().attention_backward(context, dqkv, out, out, lse, qkv, s.batch, s.sequence, s.heads,
                                         s.heads);
        });
    }

    void norms() {
        const std::int64_t rows = s_.rows(), columns = s_.hidden;
        const TensorView x = take({rows, columns}), y = take({rows, columns}), sum = take({rows, columns});
        const TensorView mean = take({rows}), rstd = take({rows}), w = take({columns}), b = take({columns});
        const TensorView dw = take({columns}), db = take({columns});
        const double sweep = 4.0 * static_cast<double>(rows * columns);
        add("residual_layernorm forward", 0, 4 * sweep, [=](const OpContext& context) {
            cpu_ops().residual_layernorm_forward(context, sum, y, mean, rstd, x, y, b, w, b, 1e-5f);
        });
        add("layernorm backward", 0, 4 * sweep, [=](const OpContext& context) {
            cpu_ops().layernorm_backward(context, y, dw, db, y, x, sum, mean, rstd, w, Accumulate::overwrite);
        });
        add("residual_rmsnorm forward", 0, 4 * sweep, [=](const OpContext& context) {
            cpu_ops().residual_rmsnorm_forward(context, sum, y, rstd, x, y, TensorView(), w, 1e-5f);
        });
        const std::int64_t sequence = s_.sequence;
        const TensorView sample(take({2}).data(), DType::u64, {1});
        add("dropout", 0, 2 * sweep, [=](const OpContext& context) {
            cpu_ops().dropout(context, y, TensorView(), {1, 2, sample.as<std::uint64_t>()}, 0.1f, sequence);
        });
        const TensorView gate_up = take({rows, 8 * columns}), activated = take({rows, 4 * columns});
        add("swiglu forward", 0, 12 * sweep,
            [=](const OpContext& context) { cpu_ops().swiglu_forward(context, activated, gate_up); });
    }

    void loss(std::int64_t rows) {
        const TensorView logits = take({rows, s_.vocabulary}), statistics = take({1, rows, 3});
        const TensorView losses = take({rows});
        const TensorView targets(take({rows}).data(), DType::i32, {rows});
        for (std::int64_t i = 0; i < rows; ++i)
            targets.as<int>()[i] = static_cast<int>(i * 7919 % s_.vocabulary);
        const std::int64_t valid = s_.vocabulary - 47;
        const TensorView scale = take({1});
        *scale.as<float>() = 1e-3f;
        add("cross_entropy", 0, 4.0 * 3 * static_cast<double>(rows * s_.vocabulary),
            [=](const OpContext& context) {
                cpu_ops().cross_entropy_statistics(context, statistics, logits, targets, 0, valid);
                cpu_ops().cross_entropy_finish(context, losses, logits, statistics, targets, 0, valid,
                                               scale.as<float>(), true);
            });
    }

    void step(std::int64_t elements) {
        const TensorView w = take({elements}), g = take({elements}), m = take({elements}),
                         v = take({elements});
        const double sweep = 4.0 * static_cast<double>(elements);
        for (std::int64_t i = 0; i < elements; ++i) v.as<float>()[i] = 1.0f;
        add("adamw_step", 0, 7 * sweep, [=](const OpContext& context) {
            const kernels::OptimizerTensor tensor{w, g, m, v, {}, true};
            cpu_ops().adamw_step(context, {&tensor, 1}, {1e-4f, 0.9f, 0.95f, 1e-8f, 0.1f, 1.0f, 10});
        });
        add("add", 0, 3 * sweep, [=](const OpContext& context) { cpu_ops().add(context, m, g); });
        const TensorView sum(take({2}).data(), DType::f64, {1});
        add("sum_of_squares", 0, sweep, [=](const OpContext& context) {
            const kernels::SumTerm term{g, 0};
            cpu_ops().sum_of_squares(context, sum, {&term, 1});
        });
        add("fill", 0, sweep, [=](const OpContext& context) { cpu_ops().fill(context, m, 0.0f); });
    }

    std::vector<BenchCase> cases;

 private:
    TensorView take(Shape shape) { return memory_->take(shape); }
    void add(const std::string& name, double flops, double bytes, std::function<void(const OpContext&)> run) {
        const std::shared_ptr<Memory> keep = memory_;
        cases.push_back({name, flops, bytes, [keep, run](const OpContext& context) { run(context); }});
    }

    BenchShape s_;
    std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
};

}  // namespace

std::vector<BenchCase> gpt2_cases(const BenchShape& s) {
    Builder builder(s);
    const std::int64_t rows = s.rows(), c = s.hidden, head_rows = std::min<std::int64_t>(rows, 512);
    builder.linear("qkv", rows, 3 * c, c, Epilogue::none, Epilogue::none);
    builder.linear("attention out", rows, c, c, Epilogue::none, Epilogue::none);
    builder.linear("mlp up + gelu", rows, 4 * c, c, Epilogue::gelu, Epilogue::none);
    builder.linear("mlp down + gelu'", rows, c, 4 * c, Epilogue::none, Epilogue::gelu);
    builder.linear("head", head_rows, s.vocabulary, c, Epilogue::none, Epilogue::none);
    builder.attention();
    builder.norms();
    builder.loss(head_rows);
    builder.step(s.vocabulary * c / 2);
    return std::move(builder.cases);
}

BenchCase sgemm_ceiling(int threads) {
    constexpr std::int64_t n = 1536;
    auto memory = std::make_shared<Memory>();
    const TensorView a = memory->take({threads * n, n}), b = memory->take({n, n}),
                     c = memory->take({threads * n, n});
    return {"SGEMM ceiling", 2.0 * n * n * n * threads, 0, [=](const OpContext& context) {
                context.pool().parallel_for(threads, [&, keep = memory](std::int64_t band, int) {
                    using kernels::Transpose;
                    kernels::sgemm(Transpose::no, Transpose::no, n, n, n, 1.0f, a.as<float>() + band * n * n,
                                   n, b.as<float>(), n, 0.0f, c.as<float>() + band * n * n, n);
                });
            }};
}

std::size_t scratch_bytes(const BenchShape& s) {
    return kernels::cpu_scratch_bytes_per_thread(
        {s.rows(), 8 * s.hidden, s.rows() / s.sequence, s.sequence, s.heads, s.hidden / s.heads});
}

}  // namespace escalier::bench
