// Text on every grid of up to four ranks: greedy continuations that PyTorch computed in double precision, and
// for every way of drawing the text of a single rank.
#include "train/generator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "config/validate.h"
#include "core/error.h"
#include "tests/harness/multirank_main.h"
#include "train/model_source.h"

namespace escalier::train {
namespace {

const std::string fixtures = GOLDEN_DIR "/pytorch/";
const std::vector<std::string> models = {"gpt2", "llama", "qwen2", "qwen3"};

struct Grid {
    int tp, pp;
};
const std::vector<Grid> grids = {{1, 1}, {2, 1}, {1, 2}, {4, 1}, {2, 2}};

// The same model with a head of its own that is equal to the embedding.
class Untied final : public checkpoint::TensorSource {
 public:
    explicit Untied(const checkpoint::TensorSource& tied) : tied_(tied), tensors_(tied.tensors()) {
        tensors_["lm_head.weight"] = tensors_.at("transformer.wte.weight");
    }
    const std::string& path() const override { return tied_.path(); }
    const std::map<std::string, checkpoint::TensorInfo>& tensors() const override { return tensors_; }
    void read_box(const std::string& name, const model::Box& box, bool transposed,
                  float* out) const override {
        tied_.read_box(name == "lm_head.weight" ? "transformer.wte.weight" : name, box, transposed, out);
    }

 private:
    const checkpoint::TensorSource& tied_;
    std::map<std::string, checkpoint::TensorInfo> tensors_;
};

struct Model {
    explicit Model(const std::string& name)
        : spec(config::load_resolved(config::read_job_file(fixtures + name + "/job.yaml"), {"run.device=cpu"},
                                     1)
                   .spec),
          weights(fixtures + name + "/weights.safetensors") {
        std::ifstream(fixtures + name + "/expected.json") >> expected;
    }
    config::JobSpec spec;
    checkpoint::SafetensorsReader weights;
    nlohmann::json expected;
};

// The model on a grid; four ranks make several of the smaller ones, side by side.
struct Placed {
    Placed(const Model& model, Grid grid)
        : Placed(model.spec.model, model.weights, model.spec.train.seq_len, grid) {}
    Placed(const config::ModelConfig& model, const checkpoint::TensorSource& weights, std::int64_t window,
           Grid grid)
        : job(test::env().world().split(test::env().world().rank() / (grid.tp * grid.pp), 0)),
          inference(model, {grid.tp, grid.pp, window, "cpu", 1}, test::env(), *job) {
        inference.load(weights);
    }
    std::vector<std::int32_t> continued(std::vector<std::int32_t> ids, std::int64_t tokens,
                                        const SamplingOptions& sampling) {
        std::vector<std::int32_t> reported;
        const std::size_t prompt = ids.size();
        generate(inference, ids, {tokens, -1, 0, sampling}, [&](std::int32_t id) { reported.push_back(id); });
        EXPECT_EQ(reported,
                  std::vector<std::int32_t>(ids.begin() + static_cast<std::ptrdiff_t>(prompt), ids.end()));
        return reported;
    }
    std::unique_ptr<comm::Communicator> job;
    Inference inference;
};

SamplingOptions greedy() {
    SamplingOptions options;
    options.temperature = 0;
    return options;
}

std::string text_of(Grid grid) {
    return std::to_string(grid.tp) + "x" + std::to_string(grid.pp);
}

TEST(Generator, GreedyTextEqualsTheDoublePrecisionReferenceOnEveryGrid) {
    for (const std::string& name : models)
        for (const Grid grid : grids) {
            SCOPED_TRACE(name + " on " + text_of(grid));
            const Model model(name);
            const std::vector<std::int32_t> prompt = model.expected["greedy"]["prompt"],
                                            continuation = model.expected["greedy"]["tokens"];
            ASSERT_GT(continuation.size(), 10u);
            Placed placed(model, grid);
            EXPECT_EQ(placed.continued(prompt, static_cast<std::int64_t>(continuation.size()), greedy()),
                      continuation);
        }
}

TEST(Generator, DrawsAreThoseOfASingleRank) {
    SamplingOptions warm, nucleus, few;
    warm.temperature = 1.3;
    nucleus.top_p = 0.8;
    nucleus.seed = 7;
    few.top_k = 5;
    few.temperature = 1;
    for (const std::string& name : models) {
        const Model model(name);
        const std::vector<std::int32_t> prompt = {3, 1, 4, 1, 5};
        std::vector<std::vector<std::int32_t>> single;
        for (const Grid grid : grids) {
            Placed placed(model, grid);
            std::vector<std::vector<std::int32_t>> texts;
            for (const SamplingOptions& options : {warm, nucleus, few})
                texts.push_back(placed.continued(prompt, 40, options));
            if (single.empty()) single = texts;
            EXPECT_EQ(texts, single) << name << " on " << text_of(grid);
        }
        EXPECT_NE(single[0], single[1]);
    }
}

TEST(Generator, LogitsAreTheSameBitsForEveryPipelineAndCloseForEveryTensorSize) {
    for (const std::string& name : models) {
        const Model model(name);
        const std::vector<std::int32_t> ids = {2, 7, 1, 8, 2, 8};
        std::vector<float> single;
        for (const Grid grid : grids) {
            Placed placed(model, grid);
            const std::span<const float> logits = placed.inference.next_logits(ids);
            const bool last = placed.job->rank() / grid.tp == grid.pp - 1;
            ASSERT_EQ(logits.size(), last ? static_cast<std::size_t>(model.spec.model.vocab_size) : 0u);
            if (single.empty()) single.assign(logits.begin(), logits.end());
            for (std::size_t i = 0; i < logits.size(); ++i) {
                if (grid.tp == 1)
                    EXPECT_EQ(logits[i], single[i]) << name << " on " << text_of(grid);
                else
                    EXPECT_NEAR(logits[i], single[i], 2e-5) << name << " on " << text_of(grid);
            }
        }
    }
}

TEST(Generator, AnUntiedHeadIsReadFromItsOwnTensor) {
    const Model model("gpt2");
    config::ModelConfig untied = model.spec.model;
    ASSERT_TRUE(untied.tie_embeddings);
    untied.tie_embeddings = false;
    for (const Grid grid : grids) {
        Placed tied(model, grid), own(untied, Untied(model.weights), model.spec.train.seq_len, grid);
        EXPECT_EQ(own.continued({5, 9, 2}, 30, greedy()), tied.continued({5, 9, 2}, 30, greedy()))
            << text_of(grid);
    }
}

// Only the last `window` tokens are seen, and a window that is longer than the text changes nothing.
TEST(Generator, TheWindowIsWhatIsSeen) {
    const Model model("llama");
    const std::vector<std::int32_t> ids = {9, 9, 9, 2, 7, 1, 8};
    const std::vector<std::int32_t> tail(ids.end() - 4, ids.end());
    Placed narrow(model.spec.model, model.weights, 4, {2, 2}), wide(model, {2, 2});
    const std::span<const float> of_all = narrow.inference.next_logits(ids);
    const std::vector<float> seen(of_all.begin(), of_all.end());
    const std::span<const float> of_tail = wide.inference.next_logits(tail);
    for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_NEAR(seen[i], of_tail[i], 2e-5);
}

TEST(Generator, TheStopIdEndsTheTextAndOnlyTheChoicesAreDrawn) {
    const Model model("qwen2");
    Placed placed(model, {2, 2});
    const std::vector<std::int32_t> prompt = {1, 2, 3};
    const std::vector<std::int32_t> free = placed.continued(prompt, 12, greedy());
    const std::int32_t stop = free[6];
    const auto first = std::find(free.begin(), free.end(), stop) - free.begin();
    std::vector<std::int32_t> ids = prompt;
    generate(placed.inference, ids, {12, stop, 0, greedy()}, [](std::int32_t) {});
    EXPECT_EQ(ids.size(), prompt.size() + static_cast<std::size_t>(first));

    SamplingOptions hot;
    hot.temperature = 50;
    ids = prompt;
    generate(placed.inference, ids, {60, -1, 7, hot}, [](std::int32_t id) { EXPECT_LT(id, 7); });
    EXPECT_EQ(ids.size(), prompt.size() + 60);
}

// The draws are made on one rank; that they cannot be made is known to all.
TEST(Generator, LogitsThatAreNotFiniteEndItOnAllRanksAlike) {
    class Poisoned final : public checkpoint::TensorSource {
     public:
        explicit Poisoned(const checkpoint::TensorSource& whole) : whole_(whole) {}
        const std::string& path() const override { return whole_.path(); }
        const std::map<std::string, checkpoint::TensorInfo>& tensors() const override {
            return whole_.tensors();
        }
        void read_box(const std::string& name, const model::Box& box, bool transposed,
                      float* out) const override {
            whole_.read_box(name, box, transposed, out);
            if (name == "model.norm.weight") out[0] = std::nanf("");
        }

     private:
        const checkpoint::TensorSource& whole_;
    };
    const Model model("llama");
    Placed placed(model.spec.model, Poisoned(model.weights), 8, {2, 2});
    std::vector<std::int32_t> ids = {1, 2, 3};
    try {
        generate(placed.inference, ids, {5, -1, 0, greedy()}, [](std::int32_t) {});
        FAIL() << "accepted";
    } catch (const comm::AgreedError& error) {
        EXPECT_EQ(error.code(), ExitCode::failed);
        EXPECT_NE(std::string(error.what()).find("token 3 cannot be drawn"), std::string::npos)
            << error.what();
    }
}

TEST(Generator, AGridThatTheModelDoesNotGoOnIsRefused) {
    const Model model("llama");  // 3 layers
    try {
        Placed placed(model, {1, 4});
        FAIL() << "accepted";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        EXPECT_NE(std::string(error.what()).find("num_layers 3"), std::string::npos) << error.what();
    }
}

TEST(GenerationWindow, IsWhatTheTextNeedsAndNoMoreThanTheLongest) {
    EXPECT_EQ(generation_window(1, 0, 256), 1);
    EXPECT_EQ(generation_window(1, 1, 256), 1);
    EXPECT_EQ(generation_window(1, 2, 256), 2);
    EXPECT_EQ(generation_window(10, 55, 256), 64);  // the last token is never read
    EXPECT_EQ(generation_window(10, 56, 256), 128);
    EXPECT_EQ(generation_window(10, 300, 256), 256);
    EXPECT_EQ(generation_window(300, 1, 256), 256);
    EXPECT_EQ(generation_window(90, 1, 100), 100);  // no power of two
    EXPECT_EQ(generation_window(5, 9000000000000, 1), 1);
    EXPECT_EQ(generation_window(5, 9000000000000, 1 << 24), 1 << 24);
    EXPECT_EQ(generation_window(5, std::int64_t{1} << 53, 100), 100);
    EXPECT_EQ(generation_window(1000, 25, 131072), 1024);
    EXPECT_EQ(generation_window(1000, 26, 131072), 2048);
    EXPECT_EQ(generation_window(3000, 201, 131072), 4096);
    EXPECT_EQ(generation_window(4000, 200, 131072), 5120);
    EXPECT_EQ(generation_window(4000, 200, 4100), 4100);
}

TEST(ModelSource, AWeightFileWithoutDescriptionIsRefusedByName) {
    const std::string path = fixtures + "gpt2/weights.safetensors";
    try {
        open_weight_file(path);
        FAIL() << "accepted";
    } catch (const DataError& error) {
        EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace escalier::train
