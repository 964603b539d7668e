// Every op of a backend at a model's shapes: its time beside its floor, or its results beside the CPU twin's.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

#include "check.h"
#include "comm/mpi_env.h"
#include "measure.h"

namespace escalier::bench {
namespace {

const std::map<std::string, BenchShape> models = {
    // batch, sequence, hidden, heads, kv_heads, ffn, vocabulary, gated
    {"124m", {4, 64, 768, 12, 12, 3072, 50304, false}},
    {"small", {4, 64, 384, 6, 6, 1536, 50304, false}},
    {"1558m", {4, 64, 1600, 25, 25, 6400, 50304, false}},
    {"llama-1b", {4, 64, 2048, 32, 8, 8192, 50304, true}},
    // Sizes that no block of threads divides, for --check.
    {"odd", {3, 77, 192, 3, 3, 520, 1003, false}},
    {"odd-gated", {2, 131, 256, 4, 2, 360, 517, true}},
    {"odd-wide", {1, 200, 256, 2, 1, 704, 301, true}},
};

struct Options {
    std::string model = "124m", device = "cpu", dtype = "auto";
    std::int64_t batch = 0, sequence = 0;  // 0: the model's
    int threads = 1;
    bool check = false;
    MeasureOptions measure;
};

CaseSettings settings_of(const Options& options, DType storage) {
    BenchShape shape = models.at(options.model);
    if (options.batch) shape.batch = options.batch;
    if (options.sequence) shape.sequence = options.sequence;
    constexpr std::int64_t most_head_rows = 4096;
    return {shape, storage, (shape.vocabulary * shape.hidden / 2 + 3) / 4 * 4,
            std::min(shape.rows(), most_head_rows)};
}

int run(const Options& options, comm::MpiEnv& env) {
    config::RunConfig spec;
    spec.device = options.device;
    spec.comm = options.device == "cpu" ? "mpi" : "staged";  // what a single rank starts soonest
    train::Backend backend = train::make_backend(spec, env);
    ComputePool pool(options.threads);
    const bool bf16 = options.dtype == "bf16" || (options.dtype == "auto" && options.device == "cuda");
    const CaseSettings settings = settings_of(options, bf16 ? DType::bf16 : DType::f32);
    if (!options.measure.json)
        std::printf("%s, %s, %s, batch %lld x sequence %lld, %d threads\n", options.model.c_str(),
                    backend.device->description().c_str(), bf16 ? "bf16" : "fp32",
                    static_cast<long long>(settings.shape.batch),
                    static_cast<long long>(settings.shape.sequence), options.threads);
    if (!options.check) {
        measure_kernels(settings, options.measure, backend, pool);
        return 0;
    }
    const int bad = check_kernels(settings, backend, pool, options.measure.only);
    std::printf("%d kernels differ from their CPU twins\n", bad);
    return bad ? 1 : 0;
}

void add_options(CLI::App& app, Options& options) {
    std::vector<std::string> names;
    for (const auto& [name, shape] : models) names.push_back(name);
    app.add_option("--model", options.model, "shapes of this model")->check(CLI::IsMember(names));
    app.add_option("--device", options.device, "backend")->check(CLI::IsMember({"cpu", "cuda"}));
    app.add_option("--dtype", options.dtype, "storage; auto: bf16 on cuda, fp32 on the CPU")
        ->check(CLI::IsMember({"auto", "fp32", "bf16"}));
    app.add_option("--batch", options.batch, "samples of a micro-batch")->check(CLI::PositiveNumber);
    app.add_option("--sequence", options.sequence, "tokens of a sample")->check(CLI::PositiveNumber);
    app.add_option("--threads", options.threads, "compute threads")->check(CLI::PositiveNumber);
    app.add_flag("--check", options.check, "compare with the CPU twins instead of measuring");
    app.add_option("--rounds", options.measure.rounds, "times that all cases are measured in turn")
        ->check(CLI::PositiveNumber);
    app.add_option("--min-ms", options.measure.least_ms, "least time per case and round")
        ->check(CLI::PositiveNumber);
    app.add_option("--ceiling-extent", options.measure.ceiling_extent,
                   "extents of the product that the ceiling is taken from")
        ->check(CLI::PositiveNumber);
    app.add_flag("--cpu-time", options.measure.cpu_time,
                 "count CPU seconds, on a machine that others load too");
    app.add_flag("--json", options.measure.json, "print one JSON object per case");
    app.add_option("--only", options.measure.only, "cases whose name contains this text");
}

}  // namespace
}  // namespace escalier::bench

int main(int argc, char** argv) {
    using namespace escalier;
    bench::Options options;
    CLI::App app("Speed of a backend's kernels at a model's shapes, or their distance from the CPU's");
    bench::add_options(app, options);
    CLI11_PARSE(app, argc, argv);
    if (options.device == "cpu" && options.dtype == "bf16") {
        std::fprintf(stderr, "bench_kernels: --dtype bf16: the CPU keeps fp32; use fp32 or --device cuda\n");
        return 2;
    }
    try {
        comm::MpiEnv env(&argc, &argv);
        return bench::run(options, env);
    } catch (const Error& error) {
        std::fprintf(stderr, "bench_kernels: %s\n", error.what());
        return static_cast<int>(error.code());
    }
}
