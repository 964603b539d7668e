#include "measure.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "case_context.h"

namespace escalier::bench {
namespace {

class Stopwatch {
 public:
    Stopwatch(const CaseContext& context, const MeasureOptions& options, int threads)
        : context_(context), options_(options), threads_(threads) {}

    // Of one call: the mean over as many calls as fill `least_ms`. Profilers see a range of the case's name.
    double seconds_per_call(const KernelCase& item) const {
        context_.device().begin_range(item.name.c_str());
        double elapsed = seconds_of(item, 1);
        long calls = 1;
        while (elapsed * 1e3 < options_.least_ms) {
            const double wanted =
                1.2e-3 * options_.least_ms / std::max(elapsed / static_cast<double>(calls), 1e-9);
            calls = std::clamp(static_cast<long>(wanted), calls + 1, 16 * calls);
            elapsed = seconds_of(item, calls);
        }
        context_.device().end_range();
        return elapsed / static_cast<double>(calls);
    }

 private:
    double seconds_of(const KernelCase& item, long calls) const {
        device::Device& device = context_.device();
        device.synchronize();
        device.clear_marks();
        const std::clock_t cpu = std::clock();
        const int begin = device.mark();
        for (long i = 0; i < calls; ++i) item.run(context_.context());
        const int end = device.mark();
        device.synchronize();
        if (options_.cpu_time) return static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC / threads_;
        return device.seconds(end) - device.seconds(begin);
    }

    const CaseContext& context_;
    const MeasureOptions& options_;
    int threads_;
};

struct Ceilings {
    KernelCase product, copy;
};

Ceilings ceilings(DType storage, const kernels::Ops& ops, device::Device& device, int threads,
                  std::int64_t extent) {
    const auto memory = std::make_shared<CaseMemory>(device);
    const std::int64_t n = extent ? extent : device.is_host() ? 1536 : 8192;
    const std::int64_t rows = device.is_host() ? threads * n : n;
    const TensorView x = memory->take(storage, {rows, n}), y = memory->take(storage, {rows, n});
    const TensorView w = memory->take(DType::f32, {n, n});
    const std::int64_t elements = ops.prepared_weight_elements(n, n, storage);
    const TensorView prepared = elements ? memory->take(storage, {n, n}) : TensorView();
    const std::int64_t length = 4 * n * n;  // larger than any cache
    const TensorView from = memory->take(DType::f32, {length}), to = memory->take(DType::f32, {length});
    const kernels::Ops* table = &ops;
    return {{"product",
             2.0 * static_cast<double>(rows * n) * static_cast<double>(n),
             0,
             [=](const OpContext& c) {
                 table->linear_forward(c, y, TensorView(), x, w, prepared, TensorView(),
                                       kernels::Epilogue::none);
             },
             {y},
             memory},
            {"copy",
             0,
             2.0 * static_cast<double>(from.bytes()),
             [=](const OpContext& c) { table->copy(c, to, from); },
             {to},
             memory}};
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

struct Figures {
    std::vector<double> seconds, shares;
};

void print(const KernelCase& item, const Figures& figures, bool json) {
    const double time = median(figures.seconds), share = median(figures.shares);
    const bool product = item.flops > 0;
    const double rate = (product ? item.flops : item.bytes) / time / 1e9;
    if (json)
        std::printf("{\"kernel\": \"%s\", \"ms\": %.5f, \"flops\": %.6g, \"bytes\": %.6g, \"share\": %.4f}\n",
                    item.name.c_str(), time * 1e3, item.flops, item.bytes, share);
    else
        std::printf("%-34s %9.4f ms %10.1f %-8s %6.1f %% of the floor's rate\n", item.name.c_str(),
                    time * 1e3, rate, product ? "GFLOP/s" : "GB/s", 100 * share);
    std::fflush(stdout);
}

}  // namespace

void measure_kernels(const CaseSettings& settings, const MeasureOptions& options, train::Backend& backend,
                     ComputePool& pool) {
    device::Device& device = *backend.device;
    const CaseContext context(device, pool, backend.scratch_bytes(work_extent(settings), pool.threads()));
    const Stopwatch stopwatch(context, options, pool.threads());
    const Ceilings ceiling =
        ceilings(settings.storage, backend.ops, device, pool.threads(), options.ceiling_extent);
    const std::vector<KernelCase> cases = kernel_cases(settings, backend.ops, device);
    std::vector<Figures> figures(cases.size());
    std::vector<double> products, copies;
    for (const KernelCase& item : cases) item.run(context.context());  // some read what others put out
    for (int round = -1; round < options.rounds; ++round) {            // round -1 warms up
        for (std::size_t i = 0; i < cases.size(); ++i) {
            if (cases[i].name.find(options.only) == std::string::npos) continue;
            const bool product = cases[i].flops > 0;
            const double copied = ceiling.copy.bytes / stopwatch.seconds_per_call(ceiling.copy);
            const double multiplied =
                product ? ceiling.product.flops / stopwatch.seconds_per_call(ceiling.product) : 1;
            const double own = stopwatch.seconds_per_call(cases[i]);
            if (round < 0) continue;
            copies.push_back(copied);
            if (product) products.push_back(multiplied);
            figures[i].seconds.push_back(own);
            figures[i].shares.push_back(std::max(cases[i].flops / multiplied, cases[i].bytes / copied) / own);
        }
    }
    if (copies.empty()) return;
    if (!options.json)
        std::printf("ceilings (medians): copy %.1f GB/s, product %.1f GFLOP/s\n", median(copies) / 1e9,
                    products.empty() ? 0.0 : median(products) / 1e9);
    for (std::size_t i = 0; i < cases.size(); ++i)
        if (!figures[i].seconds.empty()) print(cases[i], figures[i], options.json);
}

}  // namespace escalier::bench
