#include "tests/multirank/verify/verified_job.h"

#include <gtest/gtest.h>

#include <iostream>

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

void expect_found(const VerifyResult& result, const std::string& cause, const std::string& text) {
    EXPECT_FALSE(result.equal);
    EXPECT_EQ(result.diagnosis.cause, cause) << result.first << ": " << result.diagnosis.text;
    EXPECT_NE(result.diagnosis.text.find(text), std::string::npos) << result.diagnosis.text;
    if (test::env().world().rank() == 0)
        std::cout << "  " << result.first << " -> " << result.diagnosis.cause << ". " << result.diagnosis.text
                  << '\n';
}

}  // namespace escalier::train
