#include "config/validate.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "config/device_rules.h"
#include "config_test_support.h"

namespace escalier::config {
namespace {

using namespace testing;

const std::string n0 =
    "model: {arch: gpt2, num_layers: 4, hidden_size: 32, num_heads: 4, ffn_size: 128, vocab_size: 64}\n"
    "train: {seq_len: 16, global_batch: 8}\n";
const std::string llama =
    "model: {arch: llama, num_layers: 4, hidden_size: 32, num_heads: 8, num_kv_heads: 2, ffn_size: 96, "
    "vocab_size: 64}\n";

TEST(Resolve, FillsEveryAuto) {
    const JobSpec spec = resolved(
        "model: {arch: gpt2, num_layers: 4, hidden_size: 32, num_heads: 4, vocab_size: 64}\n"
        "train: {micro_batch: 3, steps: 70}\nparallel: {tp: 2, pp: 2}\n",
        8);
    EXPECT_EQ(spec.parallel.dp, 2);
    EXPECT_EQ(spec.model.num_kv_heads, 4);
    EXPECT_EQ(spec.model.head_dim, 8);
    EXPECT_EQ(spec.model.ffn_size, 128);
    EXPECT_EQ(spec.model.max_positions, 256);
    EXPECT_EQ(spec.train.seq_len, 256);
    EXPECT_EQ(spec.train.global_batch, 6);
    EXPECT_EQ(spec.micro_batches(), 1);
    EXPECT_EQ(spec.train.recompute.size(), 2u);
    EXPECT_EQ(spec.lr.decay_steps, 70);
    EXPECT_EQ(spec.pipeline.layout, "");
    EXPECT_EQ(spec.pipeline.layers_per_stage, (std::vector<std::int64_t>{2, 2}));
}

TEST(Resolve, AutoValuesFollowOthers) {
    EXPECT_EQ(resolved(n0, 1, {"train.seq_len=auto", "model.max_positions=100"}).train.seq_len, 100);
    EXPECT_EQ(resolved(n0, 1, {"lr.schedule=wsd", "train.steps=50"}).lr.decay_steps, 5);
    EXPECT_EQ(resolved(n0, 1, {"lr.schedule=wsd", "train.steps=5"}).lr.decay_steps, 1);
    EXPECT_EQ(resolved(n0, 1, {"lr.warmup_steps=20", "train.steps=10"}).lr.decay_steps, 21);
    EXPECT_EQ(resolved(n0, 2, {"parallel.pp=2", "pipeline.layout=even"}).pipeline.layers_per_stage,
              (std::vector<std::int64_t>{2, 2}));
    EXPECT_EQ(resolved(n0, 2, {"parallel.pp=2", "pipeline.layout=[3, 1]"}).pipeline.layers_per_stage,
              (std::vector<std::int64_t>{3, 1}));
    EXPECT_EQ(resolved(llama, 1, {"model.head_dim=16"}).model.head_dim, 16);
    EXPECT_EQ(resolved(n0, 1).run.threads, std::nullopt);
}

TEST(Resolve, TypeAndTransportFollowTheDevice) {
    const auto expect = [](const JobSpec& spec, const std::string& device, const std::string& comm,
                           const std::string& dtype) {
        EXPECT_EQ(spec.run.device, device);
        EXPECT_EQ(spec.run.comm, comm);
        EXPECT_EQ(spec.train.dtype, dtype);
    };
    expect(resolved(n0, 1), "auto", "auto", "auto");  // only the node knows
    expect(resolved(n0, 1, {"run.device=cpu"}), "cpu", "mpi", "fp32");
    expect(resolved(n0, 1, {"run.device=cuda"}), "cuda", "auto", "bf16");
    expect(resolved(n0, 1, {"run.device=cuda", "train.dtype=fp32"}), "cuda", "auto", "fp32");
    expect(resolved(n0, 1, {"train.dtype=bf16", "run.comm=staged"}), "auto", "staged", "bf16");
    expect(on_device(resolved(n0, 1), "cpu", "mpi"), "cpu", "mpi", "fp32");
    expect(on_device(resolved(n0, 1), "cuda", "staged"), "cuda", "staged", "bf16");
    EXPECT_EQ(message_of([&] { on_device(resolved(n0, 1, {"train.dtype=bf16"}), "cpu", "mpi"); }),
              fault(n0, 1, {"run.device=cpu", "train.dtype=bf16"}).substr(std::string("--set: ").size()));
}

struct Rule {
    std::int64_t ranks;
    std::string base;
    Sets sets;
    std::string message;
};

void PrintTo(const Rule& rule, std::ostream* out) {
    *out << rule.message;
}

class Rules : public ::testing::TestWithParam<Rule> {};

TEST_P(Rules, RefuseWithValuesAndAWayOut) {
    const std::string said = fault(GetParam().base, GetParam().ranks, GetParam().sets);
    EXPECT_TRUE(contains(said, GetParam().message)) << said;
    EXPECT_EQ(lines(said), 1) << said;
    // "place: key: …": the key is one of the spec.
    const std::size_t start = said.find(": ") + 2;
    const std::string key = said.substr(start, said.find(": ", start) - start);
    JobSpec spec;
    const FieldTable table = table_of(spec);
    EXPECT_TRUE(said == "accepted" || table.find(key) || table.find_section(key)) << said;
}

INSTANTIATE_TEST_SUITE_P(
    Device, Rules,
    ::testing::Values(Rule{1,
                           n0,
                           {"run.device=cpu", "train.dtype=bf16"},
                           "train.dtype: found bf16, but run.device cpu computes in fp32 alone"},
                      Rule{1, n0, {"run.device=cpu", "run.comm=nccl"}, "run.comm: found nccl"},
                      Rule{1, n0, {"run.device=cpu", "run.comm=staged"}, "wanted auto or mpi"},
                      Rule{1, n0, {"run.device=cuda", "run.comm=mpi"}, "wanted auto, nccl or staged"}));

INSTANTIATE_TEST_SUITE_P(
    Grid, Rules,
    ::testing::Values(
        Rule{3,
             n0,
             {"parallel.tp=2", "parallel.pp=2", "parallel.dp=1"},
             "grid 2x2x1 (tp x pp x dp) needs 4 processes, got 3; start 4"},
        Rule{8,
             n0,
             {"parallel.tp=2", "parallel.pp=2", "parallel.dp=1"},
             "needs 4 processes, got 8; start 4, or set parallel.dp to 2 or auto"},
        Rule{4, n0, {"parallel.dp=1"}, "grid 1x1x1 (tp x pp x dp) needs 1 process, got 4"},
        Rule{1,
             n0,
             {"parallel.tp=65536", "parallel.pp=65536"},
             "grid 65536x65536x1 (tp x pp x dp) is 4294967296 processes, and a job may have 1048576"},
        Rule{1, n0, {"parallel.pp=2"}, "needs 2 processes, got 1; parallel.dp is auto: start 2 processes"},
        Rule{3, n0, {"parallel.pp=2"}, "got 3; parallel.dp is auto: start 2 or 4 processes"},
        Rule{5,
             n0,
             {"parallel.pp=5"},
             "parallel.pp: 5 is more than model.num_layers 4: every stage needs a layer; parallel.pp may be "
             "at most 4"},
        Rule{3,
             n0,
             {"parallel.tp=3"},
             "model.num_heads 4 is not divisible by tp 3 (heads 4: parallel.tp may be 1, 2 or 4)"},
        Rule{8,
             n0,
             {"parallel.tp=8"},
             "model.num_heads 4 is not divisible by tp 8 (heads 4: parallel.tp may be 1, 2 or 4)"},
        Rule{4,
             n0,
             {"parallel.tp=4", "model.ffn_size=126"},
             "model.ffn_size 126 is not divisible by tp 4 (heads 4: parallel.tp may be 1 or 2)"},
        Rule{2,
             llama,
             {"parallel.tp=2", "model.num_heads=6", "model.head_dim=8", "model.num_kv_heads=3"},
             "model.num_kv_heads 3 neither divides tp 2 nor is divisible by it (heads 6: parallel.tp may be "
             "1, 3 or 6)"}));

INSTANTIATE_TEST_SUITE_P(
    Batch, Rules,
    ::testing::Values(
        Rule{1,
             n0,
             {"train.micro_batch=3"},
             "job.yaml:2:36: train.global_batch: global_batch 8 is not divisible by micro_batch 3 x dp 1 = "
             "3: 8 is not divisible by 3; global_batch may be 6 or 9, or micro_batch 1, 2, 4 or 8"},
        Rule{2,
             n0,
             {"train.global_batch=10", "train.micro_batch=2"},
             "global_batch 10 is not divisible by micro_batch 2 x dp 2 = 4"},
        Rule{4,
             n0,
             {"train.global_batch=6"},
             "global_batch 6 is not divisible by micro_batch 1 x dp 4 = 4: 6 is not divisible by 4; "
             "global_batch may be 4 or 8"},
        Rule{1, n0, {"train.micro_batch=16"}, "global_batch may be 16"}));

INSTANTIATE_TEST_SUITE_P(
    Stages, Rules,
    ::testing::Values(
        Rule{2,
             n0,
             {"parallel.pp=2", "pipeline.layout=[1, 2]"},
             "pipeline.layout: [1, 2] sums to 3, but model.num_layers is 4"},
        Rule{2,
             n0,
             {"parallel.pp=2", "pipeline.layout=[3, 2]"},
             "[3, 2] sums to 5, but model.num_layers is 4"},
        Rule{1, n0, {"pipeline.layout=[3]"}, "[3] sums to 3, but model.num_layers is 4"},
        Rule{1, n0, {"pipeline.layout=[2, 2]"}, "[2, 2] has 2 stages, but parallel.pp is 1"},
        Rule{2,
             n0,
             {"parallel.pp=2", "pipeline.layout=[9223372036854775807, 9223372036854775807]"},
             "but model.num_layers is 4"},
        Rule{2,
             n0,
             {"parallel.pp=2", "train.recompute=[full, none, none]"},
             "train.recompute: has 3 entries, but parallel.pp is 2"},
        Rule{2,
             n0,
             {"parallel.pp=2", "pipeline.chunks=2", "train.recompute=[full, none]"},
             "train.recompute: has 2 entries, but parallel.pp 2 x pipeline.chunks 2 makes 4 stages"},
        Rule{2,
             n0,
             {"parallel.pp=2", "pipeline.chunks=2", "pipeline.layout=[2, 2]"},
             "[2, 2] has 2 stages, but parallel.pp 2 x pipeline.chunks 2 makes 4 stages"},
        Rule{2,
             n0,
             {"parallel.pp=2", "pipeline.chunks=3"},
             "pipeline.chunks: 3 chunks (1f1b) x parallel.pp 2 are 6 stages, more than "
             "model.num_layers 4: every stage needs a layer; parallel.pp may be at most 1, or "
             "take a schedule with fewer chunks"},
        Rule{1,
             n0,
             {"pipeline.file=a.csv"},
             "pipeline.file: found a.csv beside schedule 1f1b, which takes no file"},
        Rule{1, n0, {"pipeline.schedule=csv"}, "pipeline.file: is needed with pipeline.schedule csv"},
        Rule{1,
             n0,
             {"pipeline.chunks=16384", "train.global_batch=1024"},
             "pipeline.chunks: 16384 x parallel.pp 1 x 1024 micro-batches are more than the "
             "4194304 that a schedule may have"}));

// What the caller says about schedules is taken over, or refused at the key that it names.
TEST(ScheduleRules, DecideStagesAndRefuse) {
    const auto load = [](const ScheduleAnswer& answer) {
        return load_resolved({"job.yaml", n0 + "parallel: {pp: 2}\n"}, {}, 2, environment(),
                             [=](const PipelineConfig&, std::int64_t pp, std::optional<std::int64_t> micro) {
                                 EXPECT_EQ(pp, 2);
                                 EXPECT_EQ(micro, 8);
                                 return answer;
                             })
            .spec;
    };
    const JobSpec spec = load({2, 4, "text", "", ""});
    EXPECT_EQ(spec.pipeline.chunks, 2);
    EXPECT_EQ(spec.pipeline.layers_per_stage, (std::vector<std::int64_t>{1, 1, 1, 1}));
    EXPECT_EQ(spec.train.recompute.size(), 4u);
    EXPECT_EQ(spec.pipeline.file_text, "text");
    EXPECT_EQ(message_of([&] {
                  load({2, 4, "", "parallel.pp", "must be odd"});
              }),
              "job.yaml:3:16: parallel.pp: must be odd");
}

// Without a number of micro-batches, because of another fault, sizes are judged all the same.
TEST(ScheduleRules, AreAskedWithoutMicroBatchesToo) {
    const std::string said = message_of([] {
        load_resolved({"job.yaml", n0}, {"train.micro_batch=3"}, 1, environment(),
                      [](const PipelineConfig&, std::int64_t, std::optional<std::int64_t> micro) {
                          EXPECT_FALSE(micro);
                          return ScheduleAnswer{1, 1, "", "pipeline.schedule", "not today"};
                      });
    });
    EXPECT_TRUE(contains(said, "pipeline.schedule: not today")) << said;
    EXPECT_TRUE(contains(said, "global_batch 8 is not divisible by micro_batch 3")) << said;
}

INSTANTIATE_TEST_SUITE_P(
    Model, Rules,
    ::testing::Values(
        Rule{1,
             "train: {steps: 3}\n",
             {},
             "job.yaml: model: the section is missing; a job needs a model, such as model: {preset: tiny}"},
        Rule{1, "model:\n", {}, "model: the section is missing"},
        Rule{1,
             "model: {arch: gpt2, hidden_size: 32, num_heads: 4, vocab_size: 64}\n",
             {},
             "job.yaml: model.num_layers: is needed"},
        Rule{1, llama, {"model.ffn_size=auto"}, "model.ffn_size: is needed"},
        Rule{1,
             n0,
             {"train.seq_len=32", "model.max_positions=16"},
             "train.seq_len: 32 is more than model.max_positions 16"},
        Rule{1, n0, {"model.num_heads=5"}, "model.hidden_size: 32 is not divisible by model.num_heads 5"},
        Rule{1,
             n0,
             {"model.head_dim=16"},
             "model.head_dim: found 16; with gpt2 it is hidden_size / num_heads"},
        Rule{1,
             n0,
             {"model.num_kv_heads=2"},
             "model.num_kv_heads: found 2 beside num_heads 4, which arch llama has and gpt2 does not"},
        Rule{1, n0, {"model.qkv_bias=true"}, "model.qkv_bias: found true; gpt2 always has biases"},
        Rule{1, n0, {"model.qk_norm=true"}, "model.qk_norm: found true, which arch llama has"},
        Rule{1, n0, {"model.rope.theta=500"}, "model.rope.theta: found 500.0, which arch llama has"},
        Rule{1,
             n0,
             {"model.rope.scaling={factor: 2}"},
             "model.rope.scaling: found a scaling, which arch llama has"},
        Rule{1,
             llama,
             {"train.seq_len=128", "model.max_positions=64"},
             "train.seq_len: 128 is more than model.max_positions 64, the longest text that"},
        Rule{1,
             llama,
             {"model.num_kv_heads=3"},
             "model.num_heads: 8 is not divisible by model.num_kv_heads 3"},
        Rule{1,
             llama,
             {"model.num_kv_heads=16"},
             "model.num_heads: 8 is not divisible by model.num_kv_heads 16"},
        Rule{1, llama, {"model.head_dim=5"}, "model.head_dim: 5 is odd"},
        Rule{1,
             llama,
             {"model.rope.scaling={low_freq_factor: 4, high_freq_factor: 4}"},
             "low_freq_factor 4.0 is not below high_freq_factor 4.0"}));

INSTANTIATE_TEST_SUITE_P(
    Other, Rules,
    ::testing::Values(
        Rule{1, n0, {"lr.peak=0.1", "lr.min=0.2"}, "lr.min: 0.2 is more than lr.peak 0.1"},
        Rule{1,
             n0,
             {"lr.warmup_steps=20", "lr.decay_steps=20"},
             "lr.decay_steps: 20 is not more than lr.warmup_steps 20"},
        Rule{1, n0, {"data.split=98"}, "accepted"}, Rule{1, n0, {"data.split=\"949, 50, 1\""}, "accepted"},
        Rule{1, n0, {"data.split=\"0,1,1\""}, "data.split: found 0,1,1, wanted shares"},
        Rule{1, n0, {"data.split=\"1,-1,1\""}, "data.split: found 1,-1,1"},
        Rule{1, n0, {"data.split=\"1,2,3,4\""}, "data.split: found 1,2,3,4"},
        Rule{1, n0, {"data.split=\"1,,3\""}, "data.split: found 1,,3"},
        Rule{1, n0, {"data.split=\"1,2x\""}, "data.split: found 1,2x"},
        Rule{1, n0, {"data.split=\"\""}, "data.split: found "},
        Rule{1, n0, {"data.tokenizer=gpt2"}, "data.tokenizer: found gpt2, wanted byte, or sp:PATH"},
        Rule{1, n0, {"data.tokenizer=\"sp:\""}, "data.tokenizer: found sp:"},
        Rule{1,
             n0,
             {"data.format=text"},
             "model.vocab_size: 64 is too small for data.tokenizer byte, which has 257 ids"},
        Rule{1, n0, {"run.name=a/b"}, "run.name: found \"a/b\", wanted the name of a folder"},
        Rule{1, n0, {"run.name=\"\""}, "run.name: found \"\""},
        Rule{1, n0, {"run.name=.."}, "run.name: found \"..\""},
        Rule{1, n0, {"run.dir=\"\""}, "run.dir: found nothing"}));

INSTANTIATE_TEST_SUITE_P(
    Sizes, Rules,
    ::testing::Values(
        Rule{
            1,
            n0,
            {"train.global_batch=2147483647"},
            "--set: train.global_batch: global_batch 2147483647 is 2147483647 micro-batches of micro_batch 1 "
            "on each of dp 1, and with pp 1 a schedule may have 4194304; lower global_batch, or raise "
            "train.micro_batch to at least 512"},
        Rule{1, n0, {"train.global_batch=4194304"}, "accepted"},
        Rule{1, n0, {"train.global_batch=4194305"}, "4194305 micro-batches"},
        Rule{4, n0, {"parallel.pp=4", "train.global_batch=1048576"}, "accepted"},
        Rule{4, n0, {"parallel.pp=4", "train.global_batch=1048577"}, "with pp 4 a schedule may have 1048576"},
        Rule{
            2,
            n0,
            {"train.global_batch=auto", "train.micro_batch=2147483647"},
            "auto gives micro_batch 2147483647 x dp 2 = 4294967294 samples, and a batch may have 2147483647"},
        Rule{1,
             llama,
             {"train.steps=99999999", "train.seq_len=16777216", "train.global_batch=8192"},
             "train.steps: 99999999 x train.global_batch 8192 x train.seq_len 16777216 tokens are too many "
             "for 64 bits; train.steps may be at most 67108863"},
        Rule{1,
             llama,
             {"train.steps=67108863", "train.seq_len=16777216", "train.global_batch=8192"},
             "accepted"},
        Rule{1,
             llama,
             {"eval.batches=2147483647", "train.seq_len=16777216", "train.global_batch=1024",
              "train.micro_batch=512"},
             "eval.batches: 2147483647 x train.global_batch 1024"}));

TEST(Resolve, SizeRulesNameThePlaceAndComeWithTheOthers) {
    const std::string said = fault(
        "model: {preset: tiny}\nlr: {peak: 0.1, min: 0.2}\ntrain:\n  global_batch: 2147483647\n"
        "  steps: 99999999\n");
    EXPECT_TRUE(contains(said, "job.yaml:4:17: train.global_batch: global_batch 2147483647 is")) << said;
    EXPECT_TRUE(contains(said, "lr.min: 0.2 is more than")) << said;
}

TEST(Resolve, KeyHeadsMayBeFewerThanTensorRanks) {
    for (const std::int64_t tp : {1, 2, 4, 8})
        EXPECT_EQ(resolved(llama, tp, {"parallel.tp=" + std::to_string(tp)}).parallel.tp, tp);
}

TEST(Resolve, GridAndTensorFaultsComeTogether) {
    const std::string said = fault(n0, 4, {"parallel.tp=8", "parallel.pp=5"});
    EXPECT_TRUE(contains(said, "needs 40 processes, got 4")) << said;
    EXPECT_TRUE(contains(said, "not divisible by tp 8")) << said;
    EXPECT_TRUE(contains(said, "5 is more than model.num_layers 4")) << said;
}

TEST(Resolve, PlacesARuleAtTheValueThatWasGiven) {
    EXPECT_EQ(fault("model: {preset: tiny}\nparallel:\n  tp: 3\n", 3).rfind("job.yaml:3:7: parallel.tp: ", 0),
              0u);
    EXPECT_EQ(fault("model: {preset: tiny}\n", 3, {"parallel.tp=3"}).rfind("--set: parallel.tp: ", 0), 0u);
}

TEST(Clock, SleepsForASetTimeOnTheCpuAlone) {
    EXPECT_EQ(resolved(n0, 1, {"run.clock=sleep", "run.layer_ms=2"}).run.layer_ms, 2);
    EXPECT_TRUE(
        contains(fault(n0, 1, {"run.clock=sleep"}), "run.layer_ms: is needed beside run.clock sleep"));
    EXPECT_TRUE(contains(fault(n0, 1, {"run.layer_ms=2"}),
                         "run.layer_ms: found 2.0, but run.clock real takes the time that the work takes"));
    EXPECT_TRUE(contains(fault(n0, 1, {"run.clock=sleep", "run.layer_ms=2", "run.device=cuda"}),
                         "run.clock: found sleep, which lets processes sleep"));
    EXPECT_TRUE(
        contains(load_fault(n0, {"run.clock=virtual"}), "run.clock: found virtual, wanted real or sleep"));
}

TEST(RequireData, OnlyTrainingNeedsIt) {
    const JobSpec without = resolved(n0, 1);
    EXPECT_TRUE(contains(message_of([&] { require_data(without); }), "data.train is needed to train"));
    EXPECT_EQ(message_of([&] { require_data(resolved(n0, 1, {"data.train=[{path: x}]"})); }), "accepted");
}

// Every job spec of the repository loads, and resolves for the ranks that its own grid needs.
TEST(SampleJobs, Resolve) {
    int jobs = 0;
    for (const auto& entry : std::filesystem::directory_iterator(CONFIGS_FOLDER)) {
        if (entry.path().extension() != ".yaml") continue;
        const JobFile file = read_job_file(entry.path().string());
        const ParallelConfig grid = load(file, {}, environment()).spec.parallel;
        const JobSpec spec =
            load_resolved(file, {}, grid.tp * grid.pp * std::max<std::int64_t>(1, grid.dp), environment())
                .spec;
        EXPECT_NO_THROW(require_data(spec)) << entry.path();
        ++jobs;
    }
    EXPECT_GE(jobs, 4);
}

}  // namespace
}  // namespace escalier::config
