#include "tests/multirank/verify/verified_job.h"

#include "config/validate.h"
#include "tests/multirank/train/token_reader.h"
#include "train/schedule_rules.h"

namespace escalier::train {

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
    const Tokens samples(16, 200, 5);  // ids of all shards of the vocabulary
    VerifyOptions options;
    options.steps = steps;
    options.activations = activations;
    options.sides[1].hooks = hooks;
    return verify({verified_spec(model, a), verified_spec(model, b)}, test::env(), samples, options);
}

}  // namespace escalier::train
