// Ops around the blocks: embedding, loss, and the sweeps over weights and gradients at the end of a step.
#include "kernel_case.h"

#include <algorithm>

namespace escalier::bench {
namespace {

using kernels::Accumulate;
using kernels::Ops;

double size_in_bytes(const TensorView& view) {
    return static_cast<double>(view.bytes());
}

class Step {
 public:
    Step(const CaseSettings& settings, const Ops& ops, const std::shared_ptr<CaseMemory>& memory,
         std::vector<KernelCase>& cases)
        : settings_(settings), s_(settings.shape), ops_(ops), memory_(memory), cases_(cases) {}

    void embedding() {
        const std::int64_t sequence = s_.sequence;
        const TensorView tokens = memory_->take_ids(s_.rows(), s_.vocabulary);
        const TensorView table = main_copy({s_.vocabulary, s_.hidden}),
                         dtable = main_copy({s_.vocabulary, s_.hidden});
        const TensorView places = main_copy({sequence, s_.hidden}),
                         dplaces = main_copy({sequence, s_.hidden});
        const TensorView out = take({s_.rows(), s_.hidden}), dout = take({s_.rows(), s_.hidden});
        const double rows_of_table = static_cast<double>(s_.rows() * s_.hidden) * 4;
        add("embedding forward", rows_of_table + size_in_bytes(out), {out},
            [=](const OpContext& c, const Ops& ops) { ops.embedding_forward(c, out, tokens, table, 0); });
        add("position forward", 2 * size_in_bytes(out) + size_in_bytes(places), {out},
            [=](const OpContext& c, const Ops& ops) { ops.position_forward(c, out, places, sequence); });
        add("position backward", size_in_bytes(dout) + size_in_bytes(dplaces), {dplaces},
            [=](const OpContext& c, const Ops& ops) {
                ops.position_backward(c, dplaces, dout, sequence, Accumulate::overwrite);
            });
        add("embedding backward", 2 * rows_of_table + size_in_bytes(dout), {dtable},
            [=](const OpContext& c, const Ops& ops) {
                ops.embedding_backward(c, dtable, tokens, dout, 0, Accumulate::add);
            });
    }

    void loss() {
        const std::int64_t rows = settings_.head_rows, valid = s_.vocabulary - s_.vocabulary / 100;
        const TensorView logits = take({rows, s_.vocabulary}), statistics = main_copy({1, rows, 3});
        const TensorView losses = main_copy({rows}), targets = memory_->take_ids(rows, valid);
        const TensorView scale = memory_->take_number(1.0 / 64);
        const TensorView sum = memory_->take(DType::f64, {1}, Contents::zeros);
        const auto* factor = static_cast<const float*>(scale.data());
        add("cross_entropy statistics", size_in_bytes(logits), {statistics},
            [=](const OpContext& c, const Ops& ops) {
                ops.cross_entropy_statistics(c, statistics, logits, targets, 0, valid);
            });
        add("cross_entropy finish", 2 * size_in_bytes(logits), {losses, logits},
            [=](const OpContext& c, const Ops& ops) {
                ops.cross_entropy_finish(c, losses, logits, statistics, targets, 0, valid, factor, true);
            });
        add("sum_losses", size_in_bytes(losses), {sum}, [=](const OpContext& c, const Ops& ops) {
            ops.sum_losses(c, sum, losses, Accumulate::overwrite);
        });
    }

    void optimizer() {
        const std::int64_t n = settings_.step_elements;
        const TensorView w = main_copy({n}), g = main_copy({n}), m = main_copy({n});
        const TensorView v = memory_->take(DType::f32, {n}, Contents::positive_numbers);
        const TensorView shadow = settings_.storage == DType::f32
                                      ? TensorView()
                                      : memory_->take(settings_.storage, {n}, Contents::zeros);
        const double moved = 7 * size_in_bytes(w) + size_in_bytes(shadow);
        std::vector<TensorView> outputs = {w, m, v};
        if (shadow.has_data()) outputs.push_back(shadow);
        add("adamw_step", moved, outputs, [=](const OpContext& c, const Ops& ops) {
            const kernels::OptimizerTensor tensor{w, g, m, v, shadow, true};
            ops.adamw_step(c, {&tensor, 1}, {1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 1.0f, 10});
        });
        outputs = {w};
        if (shadow.has_data()) outputs.push_back(shadow);
        add("sgd_step", 3 * size_in_bytes(w) + size_in_bytes(shadow), outputs,
            [=](const OpContext& c, const Ops& ops) {
                const kernels::OptimizerTensor tensor{w, g, TensorView(), TensorView(), shadow, true};
                ops.sgd_step(c, {&tensor, 1}, {1e-2f, 0.1f, 1.0f});
            });
    }

    void sweeps() {
        const std::int64_t n = settings_.step_elements;
        const TensorView a = main_copy({n}), b = main_copy({n}), narrow = take({n});
        const TensorView parts = main_copy({4, n / 4}), whole = main_copy({n / 4});
        const TensorView sums = memory_->take(DType::f64, {2}, Contents::zeros),
                         count = memory_->take(DType::f64, {1}, Contents::zeros);
        add("sum_of_squares", size_in_bytes(a), {sums}, [=](const OpContext& c, const Ops& ops) {
            const kernels::SumTerm term{a, 1};
            ops.sum_of_squares(c, sums, {&term, 1});
        });
        add("count_nonfinite", size_in_bytes(a), {count}, [=](const OpContext& c, const Ops& ops) {
            ops.count_nonfinite(c, count, a, Accumulate::overwrite);
        });
        add("sum_parts", size_in_bytes(parts) + size_in_bytes(whole), {whole},
            [=](const OpContext& c, const Ops& ops) { ops.sum_parts(c, whole, parts); });
        add("add", 3 * size_in_bytes(a), {b}, [=](const OpContext& c, const Ops& ops) { ops.add(c, b, a); });
        add("copy", size_in_bytes(a) + size_in_bytes(narrow), {narrow},
            [=](const OpContext& c, const Ops& ops) { ops.copy(c, narrow, a); });
        add("fill", size_in_bytes(b), {b},
            [=](const OpContext& c, const Ops& ops) { ops.fill(c, b, 0.25f); });
    }

 private:
    TensorView take(Shape shape) { return memory_->take(settings_.storage, shape); }
    TensorView main_copy(Shape shape) { return memory_->take(DType::f32, shape); }
    void add(const std::string& name, double bytes, std::vector<TensorView> outputs,
             std::function<void(const OpContext&, const Ops&)> run) {
        const Ops& ops = ops_;
        cases_.push_back({name, 0, bytes, [&ops, run](const OpContext& context) { run(context, ops); },
                          std::move(outputs), memory_});
    }

    CaseSettings settings_;
    BenchShape s_;
    const Ops& ops_;
    std::shared_ptr<CaseMemory> memory_;
    std::vector<KernelCase>& cases_;
};

}  // namespace

void add_step_cases(const CaseSettings& settings, const Ops& ops, const std::shared_ptr<CaseMemory>& memory,
                    std::vector<KernelCase>& cases) {
    Step step(settings, ops, memory, cases);
    step.embedding();
    step.loss();
    step.optimizer();
    step.sweeps();
}

std::vector<KernelCase> kernel_cases(const CaseSettings& settings, const Ops& ops, device::Device& device) {
    const auto memory = std::make_shared<CaseMemory>(device);
    std::vector<KernelCase> cases;
    add_layer_cases(settings, ops, memory, cases);
    add_step_cases(settings, ops, memory, cases);
    return cases;
}

kernels::WorkExtent work_extent(const CaseSettings& settings) {
    const BenchShape& s = settings.shape;
    const std::int64_t widest = std::max({2 * s.ffn, s.qkv(), s.vocabulary});
    return {std::max(s.rows(), settings.head_rows), widest, s.batch, s.sequence, s.heads, s.head_size()};
}

}  // namespace escalier::bench
