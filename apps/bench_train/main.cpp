// Measures training steps of one configuration and prints one JSON object: median step time, tokens/s, model
// FLOP/s, and that as a share of the SGEMM rate of the same library on the same number of threads, measured
// in the same run. Started by mpirun with tp * pp * dp processes; scripts/bench_train rotates configurations
// and peers.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/model_facts.h"
#include "config/validate.h"
#include "core/clock.h"
#include "train/assembly.h"
#include "train/random_tokens.h"
#include "train/schedule_rules.h"

namespace escalier {
namespace {

struct Arguments {
    std::string model = "small";
    std::int64_t micro_batch = 4, seq_len = 64, micro_batches = 1;
    std::int64_t tp = 1, pp = 1, dp = 1, threads = 1, steps = 7, warmup = 3;
    std::vector<std::string> overrides;
};

config::JobSpec make_spec(const Arguments& a, int ranks) {
    const std::int64_t global = a.micro_batch * a.micro_batches * a.dp;
    std::string yaml = "version: 1\nmodel: {preset: " + a.model + "}\n";
    std::vector<std::string> overrides = {"run.device=cpu",
                                          "parallel.tp=" + std::to_string(a.tp),
                                          "parallel.pp=" + std::to_string(a.pp),
                                          "parallel.dp=" + std::to_string(a.dp),
                                          "train.seq_len=" + std::to_string(a.seq_len),
                                          "train.micro_batch=" + std::to_string(a.micro_batch),
                                          "train.global_batch=" + std::to_string(global),
                                          "train.steps=1000"};
    overrides.insert(overrides.end(), a.overrides.begin(), a.overrides.end());
    return config::load_resolved({"bench", yaml}, overrides, ranks, config::process_environment(),
                                 train::schedule_rules())
        .spec;
}

// FLOP/s of a [n,n] x [n,n] product, best of three, all threads of this process.
double sgemm_rate(const kernels::Ops& ops, int threads) {
    constexpr std::int64_t n = 2048;
    std::vector<float> x(n * n, 0.5f), w(n * n, 0.25f), y(n * n);
    ComputePool pool(threads);
    std::vector<char> scratch(static_cast<std::size_t>(threads) << 22);
    const OpContext op(pool, scratch.data(), std::size_t{1} << 22);
    const auto view = [&](std::vector<float>& m) { return TensorView(m.data(), DType::f32, {n, n}); };
    double best = 1e9;
    for (int i = 0; i < 4; ++i) {
        const double start = now_seconds();
        ops.linear_forward(op, view(y), {}, view(x), view(w), {}, {}, kernels::Epilogue::none);
        if (i) best = std::min(best, now_seconds() - start);
    }
    return 2.0 * n * n * n / best;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

int run(const Arguments& a) {
    comm::MpiEnv env(nullptr, nullptr);
    comm::Communicator& world = env.world();
    const config::JobSpec spec = make_spec(a, world.size());
    env.start_watchdog(600);
    train::Assembly assembly(spec, env, world, {static_cast<int>(a.threads), false});
    const train::RandomTokens tokens(spec.train.seq_len, spec.model.vocab_size);

    double rate = sgemm_rate(assembly.backend().ops, static_cast<int>(a.threads));
    world.all_reduce_sum(TensorView(&rate, DType::f64, {1}), "SGEMM rates");
    std::vector<double> seconds;
    double loss = 0;
    for (std::int64_t step = 1; step <= a.warmup + a.steps; ++step) {
        world.barrier("the start of a step");
        double start = now_seconds();
        loss = assembly.step().run(tokens, 0, step).loss;
        double took = now_seconds() - start;
        world.all_reduce_max(TensorView(&took, DType::f64, {1}), "step time");
        if (step > a.warmup) seconds.push_back(took);
    }
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    double rss = static_cast<double>(usage.ru_maxrss) / 1024;
    world.all_reduce_sum(TensorView(&rss, DType::f64, {1}), "memory");
    if (world.rank() != 0) return 0;
    const double step = median(seconds);
    const double step_tokens = static_cast<double>(spec.train.global_batch * spec.train.seq_len);
    const double flops = config::flops_per_token(spec.model, spec.train.seq_len) * step_tokens;
    const nlohmann::ordered_json result = {
        {"model", a.model},
        {"micro_batch", a.micro_batch},
        {"seq_len", a.seq_len},
        {"micro_batches", a.micro_batches},
        {"grid", assembly.groups().grid.text()},
        {"threads", a.threads},
        {"step_ms", 1e3 * step},
        {"fastest_ms", 1e3 * *std::min_element(seconds.begin(), seconds.end())},
        {"tokens_per_s", step_tokens / step},
        {"gflops", flops / step / 1e9},
        {"sgemm_gflops", rate / 1e9},
        {"share_of_sgemm", flops / step / rate},
        {"rss_mib", rss},
        {"loss", loss}};
    std::cout << result.dump() << std::endl;
    return 0;
}

}  // namespace
}  // namespace escalier

int main(int argc, char** argv) {
    escalier::Arguments a;
    CLI::App app("Measures training steps of one configuration.", "bench_train");
    app.add_option("--model", a.model, "Preset");
    app.add_option("--micro-batch", a.micro_batch, "Samples per micro-batch");
    app.add_option("--seq-len", a.seq_len, "Tokens per sample");
    app.add_option("--micro-batches", a.micro_batches, "Micro-batches per replica and step");
    app.add_option("--tp", a.tp, "Tensor ranks");
    app.add_option("--pp", a.pp, "Pipeline ranks");
    app.add_option("--dp", a.dp, "Data ranks");
    app.add_option("--threads", a.threads, "Compute threads per rank");
    app.add_option("--steps", a.steps, "Timed steps");
    app.add_option("--warmup", a.warmup, "Steps before them");
    app.add_option("--set", a.overrides, "Override any key of the job spec");
    CLI11_PARSE(app, argc, argv);
    try {
        return escalier::run(a);
    } catch (const std::exception& error) {
        std::cerr << "bench_train: " << error.what() << std::endl;
        return 1;
    }
}
