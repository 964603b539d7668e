// The fixtures of tests/golden/pytorch on every grid of as many ranks as this was started with: loss and norm
// of ten steps, and every gradient of the first.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/weights.h"
#include "config/validate.h"
#include "data/sampler.h"
#include "tests/harness/multirank_main.h"
#include "train/assembly.h"
#include "train/schedule_rules.h"

namespace escalier {
namespace {

const std::string fixtures = GOLDEN_DIR "/pytorch/";

struct Case {
    std::string model;
    int tp, pp, dp;
    std::string extra;  // one more override
    std::string schedule = "1f1b";
};

// A fixture's job on its grid, with the fixture's weights.
std::unique_ptr<train::Assembly> assemble(const Case& c) {
    const std::string folder = fixtures + c.model + "/";
    std::vector<std::string> overrides = {"parallel.tp=" + std::to_string(c.tp),
                                          "parallel.pp=" + std::to_string(c.pp),
                                          "parallel.dp=" + std::to_string(c.dp),
                                          "data.train=[{path: \"" + folder + "tokens.bin\"}]",
                                          "train.micro_batch=1",
                                          "run.device=cpu",
                                          "pipeline.schedule=" + c.schedule};
    if (!c.extra.empty()) overrides.push_back(c.extra);
    const config::Job job =
        config::load_resolved(config::read_job_file(folder + "job.yaml"), overrides, c.tp * c.pp * c.dp,
                              config::process_environment(), train::schedule_rules());
    auto assembly =
        std::make_unique<train::Assembly>(job.spec, test::env(), test::env().world(),
                                          train::AssemblyOptions{.threads = 1, .validation = false});
    checkpoint::load_weights(checkpoint::SafetensorsReader(folder + "weights.safetensors"),
                             assembly->model().parameters(), assembly->groups(), *assembly->backend().device);
    assembly->model().prepare_weights();
    return assembly;
}

// Every gradient of this rank within 2e-5 of the largest element of its tensor.
void expect_gradients(const model::ParameterList& parameters, const std::string& model) {
    const checkpoint::SafetensorsReader reader(fixtures + model + "/gradients.safetensors");
    bool tie_seen = false;
    for (const model::Parameter& p : parameters) {
        // Of two tied entries on one rank the first, the embedding, holds the whole gradient.
        const bool second_of_pair = p.tie_group >= 0 && std::exchange(tie_seen, true);
        if (second_of_pair || p.gradient.elements() == 0) continue;
        std::vector<float> expected(static_cast<std::size_t>(p.gradient.elements()));
        reader.read_box(p.name, p.box, p.transposed_in_hf, expected.data());
        float largest = 0;
        for (float value : expected) largest = std::max(largest, std::abs(value));
        const float* actual = p.gradient.as<float>();
        float worst = 0;
        for (std::size_t i = 0; i < expected.size(); ++i)
            worst = std::max(worst, std::abs(actual[i] - expected[i]));
        EXPECT_LE(worst, 2e-5f * largest + 1e-6f)
            << model << ": gradient of " << p.name << " from row " << p.box.offset[0];
    }
}

void run_case(const Case& c) {
    SCOPED_TRACE(c.model + " on " + std::to_string(c.tp) + "x" + std::to_string(c.pp) + "x" +
                 std::to_string(c.dp) + " " + c.schedule + " " + c.extra);
    const auto assembly = assemble(c);
    const config::JobSpec& spec = assembly->spec();
    const auto corpus = std::make_shared<data::Corpus>(spec.data, spec.model.vocab_size);
    const data::Dataset dataset(corpus, spec.train.seq_len, 1234, spec.train.steps * spec.train.global_batch);
    nlohmann::json expected;
    std::ifstream(fixtures + c.model + "/expected.json") >> expected;
    for (int step = 1; step <= 10; ++step) {
        const train::StepResult result =
            assembly->step().run(dataset, (step - 1) * spec.train.global_batch, step);
        const nlohmann::json& want = expected["steps"][static_cast<std::size_t>(step - 1)];
        const double loss = want["loss"], norm = want["grad_norm"];
        EXPECT_NEAR(result.loss, loss, 1e-5 * loss) << "step " << step;
        EXPECT_NEAR(result.grad_norm, norm, 1e-4 * norm) << "step " << step;
        if (step == 1) expect_gradients(assembly->model().parameters(), c.model);
    }
}

TEST(PyTorchParity, LossNormAndGradients) {
    const int ranks = test::env().world().size();
    const std::vector<std::string> recomputes = {"", "train.recompute=full", "train.recompute=attention"};
    std::size_t count = 0;
    for (const char* model : {"gpt2", "llama", "qwen2", "qwen3"})
        for (int tp = 1; tp <= ranks; tp *= 2)
            for (int pp = 1; tp * pp <= ranks; pp *= 2) {
                if (pp > 2) continue;  // the models have two or three layers
                const int dp = ranks / (tp * pp);
                run_case({model, tp, pp, dp, recomputes[count++ % recomputes.size()]});
                // Two stages each: split backward passes, two copies of the model, all stages on one rank.
                for (const char* schedule : {"zb-h1", "dualpipe"})
                    if (pp == 2)
                        run_case({model, tp, pp, dp, recomputes[count++ % recomputes.size()], schedule});
                if (pp == 1) run_case({model, tp, pp, dp, "", "zbv"});
            }
}

}  // namespace
}  // namespace escalier
