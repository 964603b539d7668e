// Every schedule trains the same model: losses, norms and weights of each are those of 1f1b to the bit, but
// for two copies of the model and backward passes in reverse, which agree to rounding.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "config/validate.h"
#include "schedule/generators.h"
#include "schedule/prove.h"
#include "tests/harness/fingerprint.h"
#include "tests/harness/multirank_main.h"
#include "tests/multirank/train/token_reader.h"
#include "train/assembly.h"

namespace escalier::train {
namespace {

struct Setting {
    std::string model;
    int tp = 1, dp = 1;
    std::string recompute = "none";
    int seq_len = 16;
    bool synchronous = false;
    std::vector<int> micro_batches;
};

const std::string tied_gpt2 = "arch: gpt2, hidden_size: 32, num_heads: 4, dropout: 0.1";
const std::string untied_gpt2 = "arch: gpt2, hidden_size: 32, num_heads: 4, tie_embeddings: false";
const std::string tied_llama =
    "arch: llama, hidden_size: 32, num_heads: 4, num_kv_heads: 2, ffn_size: 72, qk_norm: true";
const std::string untied_llama =
    "arch: llama, hidden_size: 24, num_heads: 4, num_kv_heads: 1, ffn_size: 40, qkv_bias: true, "
    "tie_embeddings: false";

// Uneven: the second stage takes what is left when every stage has its least.
config::JobSpec spec_of(const Setting& setting, const schedule::Schedule& schedule, std::int64_t layers) {
    const auto number = [](std::int64_t value) { return std::to_string(value); };
    const std::string text =
        "version: 1\nrun: {device: cpu}\nmodel: {" + setting.model + ", num_layers: " + number(layers) +
        ", vocab_size: 61}\nparallel: {tp: " + number(setting.tp) + ", pp: " + number(schedule.pp) +
        ", dp: " + number(setting.dp) + "}\ntrain: {seq_len: " + number(setting.seq_len) +
        ", micro_batch: 1, global_batch: " + number(schedule.micro_batches * setting.dp) +
        ", steps: 50, recompute: " + setting.recompute + "}\nlr: {peak: 1e-2, warmup_steps: 3}\n";
    config::JobSpec spec =
        config::load_resolved({"test", text}, {}, setting.tp * schedule.pp * setting.dp).spec;
    const auto stages = static_cast<std::size_t>(schedule.stages());
    std::vector<std::int64_t>& layout = spec.pipeline.layers_per_stage;
    layout.assign(stages, layers / schedule.stages());
    layout[stages > 1 ? 1 : 0] += layers % schedule.stages();
    spec.train.recompute.assign(stages, spec.train.recompute[0]);
    return spec;
}

struct Outcome {
    std::vector<double> losses, norms;
    double validation = 0;
    std::vector<double> weights;     // a fingerprint per logical entry and tensor rank
    std::vector<double> magnitudes;  // of the same, the sum of absolute values
};

// By logical entry and tensor rank, wherever its stage lives.
std::vector<double> gather_weights(Assembly& assembly, double (*measure)(const TensorView&)) {
    const parallel::Groups& groups = assembly.groups();
    const int entries = model::count_global_entries(assembly.spec().model.num_layers);
    std::vector<double> places(static_cast<std::size_t>(entries * groups.grid.tp), 0);
    for (const model::Parameter& p : assembly.model().parameters())
        if (p.counted && groups.place.dp_rank == 0)
            places[static_cast<std::size_t>(p.global_index * groups.grid.tp + groups.place.tp_rank)] =
                measure(p.weight);
    test::env().world().all_reduce_sum(
        TensorView(places.data(), DType::f64, {static_cast<std::int64_t>(places.size())}), "weights");
    return places;
}

double magnitude(const TensorView& weight) {
    double sum = 0;
    for (std::int64_t i = 0; i < weight.elements(); ++i) sum += std::abs(weight.as<float>()[i]);
    return sum;
}

void expect_equal_over(comm::Communicator* group, const TensorView& weight, const std::string& what) {
    if (!group) return;
    double mine = test::fingerprint(weight);
    std::vector<double> all(static_cast<std::size_t>(group->size()));
    group->all_gather(TensorView(all.data(), DType::f64, {group->size()}), TensorView(&mine, DType::f64, {1}),
                      "test");
    for (const double value : all) EXPECT_EQ(value, all[0]) << what;
}

// Weights that several ranks hold stay equal to the bit.
void expect_equal_replicas(Assembly& assembly) {
    const parallel::Groups& groups = assembly.groups();
    std::vector<const model::Parameter*> sorted;
    for (const model::Parameter& p : assembly.model().parameters()) sorted.push_back(&p);
    std::sort(sorted.begin(), sorted.end(),
              [](const auto* a, const auto* b) { return a->global_index < b->global_index; });
    for (const model::Parameter* p : sorted) {
        expect_equal_over(groups.dp.get(), p->weight, p->name + " over dp");
        expect_equal_over(groups.copies.get(), p->weight, p->name + " over the model's copies");
        if (p->tie_group >= 0) expect_equal_over(groups.tied.get(), p->weight, p->name + " over tied stages");
    }
}

Outcome train(const Setting& setting, const schedule::Schedule& schedule, std::int64_t layers) {
    const Tokens tokens(setting.seq_len);
    const config::JobSpec spec = spec_of(setting, schedule, layers);
    AssemblyOptions options{.threads = 1, .validation = true};
    options.synchronous_sends = setting.synchronous;
    options.schedule = schedule;
    Assembly assembly(spec, test::env(), test::env().world(), options);
    Outcome outcome;
    for (std::int64_t step = 1; step <= 3; ++step) {
        const StepResult result = assembly.step().run(tokens, (step - 1) * spec.train.global_batch, step);
        outcome.losses.push_back(result.loss);
        outcome.norms.push_back(result.grad_norm);
        expect_equal_replicas(assembly);
    }
    std::int64_t targets = 0;
    outcome.validation = assembly.step().validate(tokens, 7, targets) / static_cast<double>(targets);
    outcome.weights = gather_weights(assembly, test::fingerprint);
    outcome.magnitudes = gather_weights(assembly, magnitude);
    return outcome;
}

// differs: another order of sums must show in some bit, or the comparison to rounding would be too lax.
void expect_same(const Outcome& ours, const Outcome& reference, bool exact, bool differs) {
    if (exact) {
        EXPECT_EQ(ours.losses, reference.losses);
        EXPECT_EQ(ours.norms, reference.norms);
        EXPECT_EQ(ours.validation, reference.validation);
        EXPECT_EQ(ours.weights, reference.weights);
        return;
    }
    for (std::size_t step = 0; step < ours.losses.size(); ++step) {
        EXPECT_NEAR(ours.losses[step], reference.losses[step], 1e-5 * reference.losses[step]);
        EXPECT_NEAR(ours.norms[step], reference.norms[step], 1e-4 * reference.norms[step]);
    }
    EXPECT_NEAR(ours.validation, reference.validation, 1e-5 * reference.validation);
    if (differs) EXPECT_TRUE(ours.weights != reference.weights);
    for (std::size_t i = 0; i < ours.magnitudes.size(); ++i)
        EXPECT_NEAR(ours.magnitudes[i], reference.magnitudes[i], 1e-3 * reference.magnitudes[i] + 1e-3);
}

// The schedules of all kinds on `pp` ranks, with M micro-batches where the kind takes them.
std::vector<schedule::Schedule> schedules_of(int pp, int micro_batches) {
    std::vector<schedule::Schedule> schedules;
    for (const schedule::Kind& kind : schedule::kinds())
        for (const schedule::BackwardOrder backward :
             {schedule::BackwardOrder::fifo, schedule::BackwardOrder::lifo})
            for (const int chunks : {1, 2, 3})
                for (const int group : {0, micro_batches}) {
                    const schedule::GenerateOptions options{.kind = std::string(kind.name),
                                                            .pp = pp,
                                                            .chunks = chunks,
                                                            .micro_batches = micro_batches,
                                                            .backward = backward,
                                                            .group = group};
                    if (schedule::size_problem(kind, options).empty())
                        schedules.push_back(schedule::generate(options));
                }
    return schedules;
}

bool equal_to_the_bit(const schedule::Schedule& schedule) {
    const schedule::Kind* kind = schedule::find_kind(schedule.kind);
    return kind->exact && schedule::prove(schedule).exact;
}

class Schedules : public ::testing::TestWithParam<Setting> {};

// All schedules of one number of micro-batches train one model: its layers are enough for three chunks.
TEST_P(Schedules, TrainTheSameModel) {
    const Setting setting = GetParam();
    const int pp = test::env().world().size() / setting.tp / setting.dp;
    const std::int64_t layers = 3 * pp + 1;
    for (const int micro_batches : setting.micro_batches) {
        const Outcome reference =
            train(setting,
                  schedule::generate({.kind = "1f1b", .pp = pp, .chunks = 1, .micro_batches = micro_batches}),
                  layers);
        for (const schedule::Schedule& schedule : schedules_of(pp, micro_batches)) {
            SCOPED_TRACE(schedule.kind + " chunks " + std::to_string(schedule.chunks) + " micro-batches " +
                         std::to_string(micro_batches));
            expect_same(train(setting, schedule, layers), reference, equal_to_the_bit(schedule),
                        micro_batches > 2);  // the sum of two is the same either way round
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    All, Schedules,
    ::testing::Values(
        Setting{.model = tied_gpt2, .micro_batches = {1, 2, 3, 9}},
        Setting{.model = untied_llama, .recompute = "full", .micro_batches = {8}},
        Setting{.model = tied_llama, .tp = 2, .recompute = "attention", .micro_batches = {1, 4, 5}},
        Setting{.model = untied_gpt2, .tp = 2, .micro_batches = {3, 6}},
        Setting{.model = tied_gpt2, .dp = 2, .micro_batches = {2, 5}},
        Setting{.model = tied_llama, .dp = 2, .recompute = "{every: 2}", .micro_batches = {4}},
        Setting{.model = tied_gpt2, .tp = 2, .dp = 2, .micro_batches = {3}},
        Setting{.model = untied_llama, .seq_len = 64, .synchronous = true, .micro_batches = {8}}),
    [](const auto& info) {
        const Setting& s = info.param;
        return "On" + std::to_string(s.tp) + "x" + std::to_string(4 / s.tp / s.dp) + "x" +
               std::to_string(s.dp) + "Setting" + std::to_string(info.index);
    });

}  // namespace
}  // namespace escalier::train
