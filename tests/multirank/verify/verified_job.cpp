#include "tests/multirank/verify/verified_job.h"

#include "config/validate.h"
#include "core/rng.h"
#include "train/schedule_rules.h"

namespace escalier::train {

namespace {

// Samples that are a function of their number, with ids of all shards of the vocabulary.
class Samples final : public data::SampleReader {
 public:
    std::int64_t seq_len() const override { return 16; }
    void read(std::int64_t sample, std::int32_t* inputs, std::int32_t* targets) const override {
        for (std::int64_t t = 0; t < seq_len(); ++t) {
            if (inputs) inputs[t] = id(sample, t);
            if (targets) targets[t] = id(sample, t + 1);
        }
    }
    std::int64_t valid_targets(std::int64_t, std::int64_t count) const override { return count * seq_len(); }

 private:
    static std::int32_t id(std::int64_t sample, std::int64_t t) {
        return static_cast<std::int32_t>(
            philox(5, static_cast<std::uint64_t>(sample), static_cast<std::uint64_t>(t))[0] % 200);
    }
};

}  // namespace

config::JobSpec verified_spec(const std::string& model, const std::vector<std::string>& overrides) {
    const std::string text = "version: 1\nrun: {device: cpu, threads: 1}\nmodel: {" + model +
                             ", num_layers: 4, vocab_size: 200}\n"
                             "parallel: {tp: 1, pp: 1, dp: 1}\n"
                             "train: {seq_len: 16, micro_batch: 1, global_batch: 8, steps: 20}\n"
                             "lr: {peak: 1e-3, schedule: constant}\n";
    const config::Job job = config::load({"test", text}, overrides, {});
    const config::ParallelConfig& grid = job.spec.parallel;
    return config::resolve(job.spec, grid.tp * grid.pp * grid.dp, schedule_rules());
}

VerifyResult verify_grids(const std::string& model, const std::vector<std::string>& a,
                          const std::vector<std::string>& b, const AssemblyHooks& hooks, std::int64_t steps,
                          bool activations) {
    const Samples samples;
    VerifyOptions options;
    options.steps = steps;
    options.activations = activations;
    options.sides[1].hooks = hooks;
    return verify({verified_spec(model, a), verified_spec(model, b)}, test::env(), samples, options);
}

}  // namespace escalier::train
