// Measures every heavy op at a model's shapes beside the matrix library's own rate, in rotation, so that the
// shares hold on a machine whose speed drifts.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>

#include "bench_case.h"

namespace escalier::bench {
namespace {

struct Options {
    std::string model = "124m";
    std::int64_t batch = 4, sequence = 64;
    int threads = 1, rounds = 5;
    double least_ms = 20;  // per case and round
    bool cpu_time = false;
    std::string only;
};

// Wall-clock seconds, or the CPU seconds of this process per thread.
double now(const Options& options) {
    if (!options.cpu_time)
        return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC / options.threads;
}

// Seconds of one call: the mean over as many calls as fill `least_ms`.
double seconds_per_call(const BenchCase& item, const OpContext& context, const Options& options) {
    const double start = now(options);
    double elapsed = 0;
    int calls = 0;
    for (; elapsed * 1e3 < options.least_ms; ++calls) {
        item.run(context);
        elapsed = now(options) - start;
    }
    return elapsed / calls;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

void measure(const Options& options, const BenchShape& shape) {
    ComputePool pool(options.threads);
    const std::size_t per_thread = scratch_bytes(shape);
    const std::unique_ptr<void, decltype(&std::free)> scratch(
        std::aligned_alloc(256, per_thread * static_cast<std::size_t>(options.threads)), &std::free);
    const OpContext context(pool, scratch.get(), per_thread);
    const BenchCase ceiling = sgemm_ceiling(options.threads);
    std::vector<BenchCase> cases = gpt2_cases(shape);
    std::erase_if(cases,
                  [&](const BenchCase& item) { return item.name.find(options.only) == std::string::npos; });

    std::vector<std::vector<double>> seconds(cases.size()), shares(cases.size());
    std::vector<double> rates;
    for (int round = -1; round < options.rounds; ++round) {  // round -1 warms up
        for (std::size_t i = 0; i < cases.size(); ++i) {
            const double reference = ceiling.flops / seconds_per_call(ceiling, context, options);
            const double own = seconds_per_call(cases[i], context, options);
            if (round < 0) continue;
            rates.push_back(reference);
            seconds[i].push_back(own);
            shares[i].push_back(cases[i].flops / own / reference);
        }
    }
    std::printf("%s, batch %lld x sequence %lld, %d threads; SGEMM ceiling %.1f GFLOP/s (median)\n",
                options.model.c_str(), static_cast<long long>(shape.batch),
                static_cast<long long>(shape.sequence), options.threads, median(rates) / 1e9);
    for (std::size_t i = 0; i < cases.size(); ++i) {
        const double time = median(seconds[i]);
        if (cases[i].flops > 0)
            std::printf("%-34s %9.3f ms %8.1f GFLOP/s %6.1f %% of SGEMM\n", cases[i].name.c_str(), time * 1e3,
                        cases[i].flops / time / 1e9, 100 * median(shares[i]));
        else
            std::printf("%-34s %9.3f ms %8.1f GB/s\n", cases[i].name.c_str(), time * 1e3,
                        cases[i].bytes / time / 1e9);
    }
}

}  // namespace
}  // namespace escalier::bench

int main(int argc, char** argv) {
    using namespace escalier;
    const std::map<std::string, bench::BenchShape> models = {{"124m", {0, 0, 768, 12, 50304}},
                                                             {"small", {0, 0, 384, 6, 50304}}};
    bench::Options options;
    CLI::App app("Speed of the CPU kernels at the shapes of a gpt2 model");
    app.add_option("--model", options.model, "124m or small")->check(CLI::IsMember({"124m", "small"}));
    app.add_option("--batch", options.batch, "samples of a micro-batch")->check(CLI::PositiveNumber);
    app.add_option("--sequence", options.sequence, "tokens of a sample")->check(CLI::PositiveNumber);
    app.add_option("--threads", options.threads, "compute threads")->check(CLI::PositiveNumber);
    app.add_option("--rounds", options.rounds, "times that all cases are measured in turn")
        ->check(CLI::PositiveNumber);
    app.add_option("--min-ms", options.least_ms, "least time per case and round")->check(CLI::PositiveNumber);
    app.add_flag("--cpu-time", options.cpu_time, "count CPU seconds, on a machine that others load too");
    app.add_option("--only", options.only, "measure cases whose name contains this text");
    CLI11_PARSE(app, argc, argv);
    bench::BenchShape shape = models.at(options.model);
    shape.batch = options.batch;
    shape.sequence = options.sequence;
    try {
        bench::measure(options, shape);
    } catch (const Error& error) {
        std::fprintf(stderr, "bench_kernels: %s\n", error.what());
        return static_cast<int>(error.code());
    }
    return 0;
}
