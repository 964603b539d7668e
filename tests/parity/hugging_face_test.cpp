// Models that transformers wrote, imported: on every grid of up to two ranks the losses, gradient norms and
// logits that transformers computed, also after changes to config.json that leave every shape as it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "checkpoint/hf_import.h"
#include "checkpoint/reader.h"
#include "checkpoint/weights.h"
#include "config/load.h"
#include "config/validate.h"
#include "data/sampler.h"
#include "tests/harness/multirank_main.h"
#include "tests/harness/shared_folder.h"
#include "train/assembly.h"
#include "train/inference.h"
#include "train/model_source.h"
#include "train/schedule_rules.h"

namespace escalier {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string golden = GOLDEN_DIR "/hf/";

json read_json(const std::string& path) {
    json value;
    std::ifstream(path) >> value;
    return value;
}

// A fixture with changes to its config.json, imported by rank 0; gone at the end.
class Imported {
 public:
    Imported(const std::string& name, const json& changes) {
        if (test::env().world().rank() == 0) {
            fs::copy(golden + name, folder_ / "hf", fs::copy_options::recursive);
            json config = read_json(folder_ / "hf/config.json");
            config.update(changes);
            std::ofstream(folder_ / "hf/config.json") << config.dump();
            checkpoint::PosixFiles files;
            checkpoint::import_hf(folder_ / "hf", folder_ / "run", {{}, "byte", "test"}, files);
        }
        test::env().world().barrier("import");
    }

    std::string run() const { return folder_ / "run"; }

 private:
    const test::SharedFolder folder_;
};

// expected: losses and grad_norm.
void expect_step(const std::string& name, const json& changes, const json& expected, int tp, int pp) {
    SCOPED_TRACE(name + " " + changes.dump() + " on " + std::to_string(tp) + "x" + std::to_string(pp));
    const Imported imported(name, changes);
    const std::vector<std::string> overrides = {
        "data={train: [{path: \"" + golden + name + "/tokens.bin\"}], format: raw16, split: \"1,0,0\"}",
        "train={seq_len: 16, micro_batch: 1, global_batch: 4, steps: 1}",
        "lr={peak: 0.0, schedule: constant}", "run.device=cpu",
        "parallel={tp: " + std::to_string(tp) + ", pp: " + std::to_string(pp) + ", dp: 1}"};
    const config::Job job =
        config::load_resolved(config::read_job_file(imported.run() + "/model.yaml"), overrides, tp * pp,
                              config::process_environment(), train::schedule_rules());
    train::Assembly assembly(job.spec, test::env(), test::env().world(),
                             train::AssemblyOptions{.threads = 1, .validation = false});
    const checkpoint::CheckpointReader reader(imported.run() + "/step_00000000");
    checkpoint::load_weights(reader.tensors(checkpoint::StateKind::weight), assembly.model().parameters(),
                             assembly.groups(), *assembly.backend().device);
    assembly.model().prepare_weights();
    const auto corpus = std::make_shared<data::Corpus>(job.spec.data, job.spec.model.vocab_size);
    const data::Dataset dataset(corpus, 16, 1234, 4);
    const std::vector<double> losses = expected["losses"];
    const double loss = std::accumulate(losses.begin(), losses.end(), 0.0) / 4, norm = expected["grad_norm"];
    const train::StepResult result = assembly.step().run(dataset, 0, 1);
    EXPECT_NEAR(result.loss, loss, 1e-5 * loss);
    EXPECT_NEAR(result.grad_norm, norm, 1e-5 * norm);
}

TEST(HuggingFace, StepsOfTransformersOnEveryGrid) {
    const int ranks = test::env().world().size();
    for (const char* name : {"gpt2", "gpt2_wide", "llama", "llama3", "qwen2", "qwen3"}) {
        const json expected = read_json(golden + name + "/expected.json");
        expect_step(name, json::object(), expected, 1, ranks);
        if (ranks > 1) expect_step(name, json::object(), expected, ranks, 1);
    }
}

// Behind the first sample, whose tokens are all seen.
void expect_logits(const std::string& name, const std::vector<double>& want, int tp, int pp) {
    SCOPED_TRACE(name + " on " + std::to_string(tp) + "x" + std::to_string(pp));
    const Imported imported(name, json::object());
    std::uint16_t tokens[16] = {};
    std::ifstream(golden + name + "/tokens.bin", std::ios::binary)
        .read(reinterpret_cast<char*>(tokens), sizeof tokens);
    const std::vector<std::int32_t> ids(std::begin(tokens), std::end(tokens));
    const train::ModelSource source = train::open_checkpoint(imported.run() + "/step_00000000");
    train::Inference inference(source.about.model, {tp, pp, 16, "cpu", 1}, test::env(), test::env().world());
    inference.load(source.weights());
    const std::span<const float> logits = inference.next_logits(ids);
    if (test::env().world().rank() == inference.logits_rank()) {
        ASSERT_EQ(logits.size(), want.size());
    }
    double largest = 0;
    for (const double logit : want) largest = std::max(largest, std::abs(logit));
    for (std::size_t id = 0; id < logits.size(); ++id)
        EXPECT_NEAR(logits[id], want[id], 1e-5 * largest) << id;
}

TEST(HuggingFace, LogitsOfTransformersOnEveryGrid) {
    const int ranks = test::env().world().size();
    for (const char* name : {"gpt2", "gpt2_wide", "llama", "llama3", "qwen2", "qwen3"}) {
        const json expected = read_json(golden + name + "/expected.json");
        expect_logits(name, expected["logits"], 1, ranks);
        if (ranks > 1) expect_logits(name, expected["logits"], ranks, 1);
    }
}

TEST(HuggingFace, EveryFieldOfTheConfigCounts) {
    if (test::env().world().size() > 1) return;
    int variants = 0;
    for (const char* name : {"gpt2", "llama", "qwen3"}) {
        const json expected = read_json(golden + name + "/expected.json");
        for (const json& variant : expected["variants"]) {
            expect_step(name, variant["config"], variant, 1, 1);
            ++variants;
        }
    }
    EXPECT_EQ(variants, 14);
}

}  // namespace
}  // namespace escalier
