// Every way in which YAML can fail to say what the user meant: each is refused, with its place and its key.
#include <gtest/gtest.h>

#include <random>

#include "config/dump.h"
#include "config_test_support.h"

namespace escalier::config {
namespace {

using namespace testing;

struct Case {
    std::string text;
    std::string message;  // part of what is said
};

void PrintTo(const Case& refused, std::ostream* out) {
    *out << refused.message;
}

class Refused : public ::testing::TestWithParam<Case> {};

TEST_P(Refused, NamesPlaceKeyAndRule) {
    const std::string said = load_fault(GetParam().text);
    EXPECT_TRUE(contains(said, GetParam().message)) << GetParam().text << "\nsaid: " << said;
    EXPECT_EQ(lines(said), 1) << said;
}

const std::string tiny = "model: {preset: tiny}\n";

INSTANTIATE_TEST_SUITE_P(
    Yaml, Refused,
    ::testing::Values(
        Case{"", "job.yaml: the file is empty"}, Case{"# nothing\n", "job.yaml: the file is empty"},
        Case{"- 1\n", "job.yaml:1:1: found a list, wanted a map of sections"},
        Case{"word\n", "job.yaml:1:1: found word, wanted a map of sections"},
        Case{tiny + "train:\n\tsteps: 3\n", "job.yaml:3:1: found a tab in the indentation, wanted spaces"},
        Case{tiny + "train:\n  \tsteps: 3\n", "job.yaml:3:3: found a tab"},
        Case{"model: {preset: tiny\n", "a { is not closed by }"},
        Case{tiny + "pipeline: {layout: [1, 2}\n", "job.yaml:2:25: not valid YAML"},
        Case{tiny + "---\nlr: {peak: 1}\n", "found a second YAML document"},
        Case{std::string("model\0: 1\n", 10), "job.yaml: holds zero bytes"},
        Case{tiny + "train:\n  <<: {steps: 3}\n", "job.yaml:3:3: train.<<: merge keys are not supported"},
        Case{"<<: {steps: 3}\n" + tiny, "job.yaml:1:1: <<: merge keys are not supported"},
        Case{tiny + "train: !!map {steps: 3}\n", "train: found the YAML tag"},
        Case{tiny + "train: {steps: !!int \"3\"}\n", "train.steps: found the YAML tag"},
        Case{tiny + "? [a]\n: 3\n", "found a list as a key"}));

INSTANTIATE_TEST_SUITE_P(
    Numbers, Refused,
    ::testing::Values(
        Case{tiny + "train: {steps: ten}\n",
             "job.yaml:2:16: train.steps: found ten, wanted a whole number of at least 1"},
        Case{tiny + "train: {steps: 010}\n",
             "found 010, wanted a whole number of at least 1 (a leading zero would mean octal; write 10)"},
        Case{tiny + "train: {steps: 00}\n", "write 0"},
        Case{tiny + "train: {steps: -3}\n", "found -3, wanted"},
        Case{tiny + "train: {steps: 0}\n", "found 0, wanted"},
        Case{tiny + "train: {steps: 3.5}\n", "found 3.5, wanted a whole number"},
        Case{tiny + "train: {steps: 3.0}\n", "(write 3)"},
        Case{tiny + "train: {steps: 1e3}\n", "(write 1000)"},
        Case{tiny + "train: {steps: 1_000}\n",
             "found 1_000, wanted a whole number of at least 1 (write 1000)"},
        Case{tiny + "train: {steps: 0x10}\n", "found 0x10, wanted a whole number"},
        Case{tiny + "train: {steps: +3}\n", "found +3"},
        Case{tiny + "train: {steps: \"8\"}\n", "found \"8\" in quotes"},
        Case{tiny + "train: {steps: '8'}\n", "(drop the quotes)"},
        Case{tiny + "train: {steps: 99999999999999999999}\n", "(the number is too long for 64 bits)"},
        Case{tiny + "train: {seq_len: 999999999}\n", "(at most 16777216)"},
        Case{tiny + "train: {steps: }\n", "train.steps: found nothing, wanted"},
        Case{tiny + "train: {steps: ~}\n", "train.steps: found nothing, wanted"},
        Case{tiny + "train: {steps: [3]}\n", "train.steps: found a list, wanted"},
        Case{tiny + "train: {steps: {a: 3}}\n", "train.steps: found a map, wanted"},
        Case{tiny + "train: {steps: true}\n", "train.steps: found true, wanted"},
        Case{tiny + "train: {steps: auto}\n", "train.steps: found auto, wanted"},
        Case{tiny + "train: {global_batch: 0}\n",
             "train.global_batch: found 0, wanted a whole number of at least 1, or auto"},
        Case{tiny + "parallel: {dp: 0}\n",
             "parallel.dp: found 0, wanted a whole number from 1 to 1048576, or auto"},
        Case{tiny + "lr: {peak: fast}\n", "lr.peak: found fast, wanted a number of at least 0.0"},
        Case{tiny + "lr: {peak: -1}\n", "lr.peak: found -1"},
        Case{tiny + "lr: {peak: .nan}\n", "lr.peak: found .nan"},
        Case{tiny + "lr: {peak: .inf}\n", "lr.peak: found .inf"},
        Case{tiny + "lr: {peak: inf}\n", "lr.peak: found inf"},
        Case{tiny + "lr: {peak: 1e400}\n", "(the number does not fit fp32)"},
        Case{tiny + "lr: {peak: 1e39}\n", "job.yaml:2:12: lr.peak: found 1e39"},
        Case{tiny + "lr: {min: 3.5e38}\n", "lr.min: found 3.5e38"},
        Case{tiny + "optimizer: {weight_decay: 1e300}\n",
             "optimizer.weight_decay: found 1e300, wanted a number of at least 0.0 (the number does not fit "
             "fp32)"},
        Case{tiny + "optimizer: {clip_grad: 1e39}\n", "optimizer.clip_grad: found 1e39"},
        Case{tiny + "optimizer: {eps: 1e39}\n", "optimizer.eps: found 1e39"},
        Case{tiny + "optimizer: {eps: 1e-60}\n", "wanted a number above 0.0 (rounded to fp32 it is 0.0)"},
        Case{"model: {preset: tiny, norm_eps: 1e-60}\n", "model.norm_eps: found 1e-60"},
        Case{
            "model: {preset: tiny, dropout: 0.9999999999}\n",
            "job.yaml:1:32: model.dropout: found 0.9999999999, wanted a number of at least 0.0 and below 1.0 "
            "(rounded to fp32 it is 1.0)"},
        Case{tiny + "optimizer: {beta1: 0.9999999999}\n", "optimizer.beta1: found 0.9999999999"},
        Case{tiny + "optimizer: {beta2: 0.99999999}\n", "optimizer.beta2: found 0.99999999"},
        Case{tiny + "lr: {peak: 01.5}\n", "lr.peak: found 01.5"},
        Case{tiny + "lr: {peak: \"1\"}\n", "(drop the quotes)"},
        Case{tiny + "lr: {peak: 0x1p3}\n", "lr.peak: found 0x1p3"},
        Case{tiny + "optimizer: {beta1: 1.0}\n",
             "optimizer.beta1: found 1.0, wanted a number of at least 0.0 and below 1.0"},
        Case{tiny + "optimizer: {eps: 0}\n", "optimizer.eps: found 0, wanted a number above 0.0"},
        Case{"model: {preset: tiny, dropout: 1.0}\n", "model.dropout: found 1.0"},
        Case{"model: {preset: tiny, dropout: -0.1}\n", "model.dropout: found -0.1"},
        Case{tiny + "log: {jsonl: yes}\n", "log.jsonl: found yes, wanted true or false"},
        Case{tiny + "log: {jsonl: \"true\"}\n", "(drop the quotes)"},
        Case{"version: 2\n" + tiny, "job.yaml:1:10: version: found 2, wanted 1"}));

INSTANTIATE_TEST_SUITE_P(
    Choices, Refused,
    ::testing::Values(
        Case{tiny + "pipeline: {schedule: 1F1B}\n", "or csv (did you mean 1f1b?)"},
        Case{tiny + "pipeline: {schedule: afab}\n", "(here it is gpipe)"},
        Case{tiny + "pipeline: {schedule: zbh1}\n", "(did you mean zb-h1?)"},
        Case{tiny + "pipeline: {schedule: Interleaved1F1B}\n", "(here it is interleaved)"},
        Case{tiny + "pipeline: {schedule: LoopedBFS}\n", "(here it is bfs)"},
        Case{tiny + "pipeline: {chunks: 0}\n",
             "pipeline.chunks: found 0, wanted a whole number from 1 to 16384, or auto"},
        Case{tiny + "pipeline: {group: many}\n", "pipeline.group: found many, wanted a whole number"},
        Case{tiny + "pipeline: {file: [a.csv]}\n", "pipeline.file: found a list, wanted text, or null"},
        Case{tiny + "run: {device: gpu}\n",
             "run.device: found gpu, wanted auto, cpu or cuda (here it is cuda)"},
        Case{tiny + "run: {comm: gloo}\n", "wanted auto, mpi, nccl or staged (here it is mpi)"},
        Case{tiny + "train: {dtype: bfloat16}\n",
             "train.dtype: found bfloat16, wanted auto, fp32 or bf16 (here it is bf16)"},
        Case{tiny + "train: {recompute: selective}\n", "(here it is attention)"},
        Case{tiny + "train: {recompute: {each: 2}}\n", "(the only key of the map is every)"},
        Case{tiny + "train: {recompute: {every: 0}}\n", "train.recompute.every: found 0"},
        Case{tiny + "train: {recompute: []}\n", "train.recompute: found a list"},
        Case{tiny + "train: {recompute: [full, {every: 2}]}\n", "share one group size"},
        Case{tiny + "pipeline: {layout: profile.txt}\n",
             "pipeline.layout: found profile.txt, wanted balanced, even, a profile such as profile.yaml, or "
             "a list"},
        Case{tiny + "pipeline: {layout: [1, 0]}\n", "job.yaml:2:24: pipeline.layout: found 0"},
        Case{tiny + "pipeline: {layout: []}\n", "pipeline.layout: found a list"},
        Case{"model: {preset: tiny, arch: bert}\n", "model.arch: found bert, wanted gpt2 or llama"},
        Case{"model: {preset: gpt2-124}\n", "job.yaml:1:17: model.preset: found gpt2-124, wanted one of"},
        Case{"model: {preset: gpt2-124}\n", "(did you mean gpt2-124m?)"},
        Case{"model: {preset: llama3.1-8b, rope: {scaling: {type: yarn}}}\n",
             "model.rope.scaling.type: found yarn, wanted llama3"},
        Case{"model: {preset: llama3.1-8b, rope: {scaling: 8}}\n",
             "model.rope.scaling: found 8, wanted null, or a map"},
        Case{tiny + "data: {train: data/corpus}\n", "data.train: found data/corpus, wanted a list such as"},
        Case{tiny + "data: {train: [corpus]}\n", "data.train[0]: found corpus, wanted a map such as"},
        Case{tiny + "data: {train: [{weight: 1}]}\n", "data.train[0].path: is needed"},
        Case{tiny + "data: {train: [{path: a}, {path: b, weight: 0}]}\n", "data.train[1].weight: found 0"}));

INSTANTIATE_TEST_SUITE_P(
    Keys, Refused,
    ::testing::Values(
        Case{tiny + "lr: {learning_rte: 1e-3}\n",
             "job.yaml:2:6: lr.learning_rte: unknown key; here it is lr.peak"},
        Case{tiny + "model_: {}\n", "model_: unknown key; did you mean model?"},
        Case{"model: {preset: tiny, num-layers: 4}\n",
             "model.num-layers: unknown key; did you mean model.num_layers?"},
        Case{"model: {preset: tiny, num_laeyrs: 4}\n", "did you mean model.num_layers?"},
        Case{tiny + "train: {peak: 1}\n",
             "train.peak: unknown key; the key peak stands in another section: lr.peak"},
        Case{tiny + "parallel.tp: 2\n", "parallel.tp: unknown key; write it nested: parallel: {tp: ...}"},
        Case{tiny + "parallel: {tensor_model_parallel_size: 2}\n", "here it is parallel.tp"},
        Case{tiny + "train: {gradient_accumulation_steps: 2}\n",
             "here it is train.global_batch (global_batch = micro_batch x accumulation x dp)"},
        Case{tiny + "optimizer: {lr: 1e-3}\n", "here it is lr.peak"},
        Case{tiny + "parallel: {cp: 1}\n", "parallel.cp: unknown key; it is not supported yet; remove it"},
        Case{tiny + "parallel: {zero: 1}\n", "parallel.zero: unknown key; it is not supported yet"},
        Case{tiny + "xyzzy: 1\n", "known here: version, run, model"},
        Case{tiny + "eval: {xyzzyxyzzy: 1}\n", "known in eval: every, batches"},
        Case{tiny + "data: {train: [{path: a, wieght: 2}]}\n",
             "data.train[0].wieght: unknown key; did you mean data.train[0].weight?"},
        Case{tiny + "train: 8\n", "train: found 8, wanted a map of its keys: seq_len, micro_batch"},
        Case{tiny + "lr: {peak: 1}\ntrain: {steps: 3}\nlr: {peak: 2}\n",
             "job.yaml:4:1: lr: given twice, first at line 2 and again at line 4"},
        Case{tiny + "lr:\n  peak: 1e-3\n  peak: 1e-1\n",
             "job.yaml:4:3: lr.peak: given twice, first at line 3 and again at line 4"}));

TEST(RefusedSet, NamesTheFlag) {
    EXPECT_EQ(load_fault(tiny, {"parallel.tp"}),
              "--set parallel.tp: wanted key=value, such as --set parallel.tp=2");
    EXPECT_EQ(load_fault(tiny, {"=3"}), "--set =3: wanted key=value, such as --set parallel.tp=2");
    EXPECT_TRUE(contains(load_fault(tiny, {"parallel.tp=two"}),
                         "--set parallel.tp=two: parallel.tp: found two, wanted"));
    EXPECT_TRUE(contains(load_fault(tiny, {"parallel.tpp=2"}),
                         "parallel.tpp: unknown key; did you mean parallel.tp?"));
    EXPECT_TRUE(contains(load_fault(tiny, {"paralel.tp=2"}), "parallel.tp"));
    EXPECT_TRUE(contains(load_fault(tiny, {"lr={peak: 1, peak: 2}"}), "lr.peak: given twice"));
    EXPECT_TRUE(contains(load_fault(tiny, {"model.rope.scaling.factr=2"}),
                         "did you mean model.rope.scaling.factor?"));
    EXPECT_TRUE(contains(load_fault(tiny, {"train.recompute={every: 2"}), "not valid YAML"));
}

TEST(AllAtOnce, FaultsOfReadingAndOfRulesComeTogether) {
    const std::string said = fault(
        "lrr: {}\nmodel: {preset: tiny}\nparallel: {tp: 3}\ntrain: {steps: -1, global_batch: 8, "
        "micro_batch: 3}\n",
        3, {"optimizer.name=adma"});
    EXPECT_TRUE(contains(said, "5 errors in the job spec")) << said;
    EXPECT_TRUE(contains(said, "job.yaml:1:1: lrr: unknown key")) << said;
    EXPECT_TRUE(contains(said, "job.yaml:4:16: train.steps: found -1")) << said;
    EXPECT_TRUE(contains(said, "optimizer.name: found adma")) << said;
    EXPECT_TRUE(contains(said, "job.yaml:3:16: parallel.tp: model.num_heads 4 is not divisible by tp 3"))
        << said;
    EXPECT_TRUE(contains(said, "global_batch 8 is not divisible by micro_batch 3")) << said;
}

TEST(AllAtOnce, NoRuleJudgesAValueThatWasNotRead) {
    EXPECT_EQ(lines(fault("model: {arch: gpt2, num_layers: four, hidden_size: 32, num_heads: 4, vocab_size: "
                          "64}\nparallel: {pp: 2}\n",
                          2)),
              1);
    EXPECT_EQ(
        lines(fault("model: {arch: gpt2, num_layer: 4, hidden_size: 32, num_heads: 4, vocab_size: 64}\n")),
        1);
    EXPECT_EQ(lines(fault("model: {preset: tinny}\n")), 1);
    EXPECT_EQ(lines(fault("modle: {preset: tiny}\n")), 1);
    EXPECT_EQ(lines(fault("model: {preset: tiny}\nparallel: {tp: two}\n", 4)), 1);
}

TEST(Endless, FaultsAreNotCollectedForEver) {
    std::string text = "model: {preset: tiny}\n";
    for (int key = 0; key < 2000; ++key) text += "unknown_" + std::to_string(key) + ": 1\n";
    const std::string message = fault(text);
    EXPECT_TRUE(contains(message, "100 errors in the job spec, and maybe more")) << message.substr(0, 100);
    EXPECT_EQ(lines(message), 101);
}

// Whatever the text, loading ends in a spec or in a ConfigError.
TEST(Mutated, TextNeverEscapesAsAnotherError) {
    const std::string base =
        dump(resolved("model: {preset: llama3.1-8b}\ndata: {train: [{path: \"a b\", weight: 2.5}]}\n", 4,
                      {"parallel.pp=2", "train.recompute=[full, none]"}));
    std::mt19937 random(7);
    const std::string letters = "{}[]:,-#\"'\t\n &*!|>%@`0189aex.~?$\\<";
    int refused = 0;
    for (int round = 0; round < 2000; ++round) {
        std::string text = base;
        for (int change = 0; change < 1 + round % 4; ++change) {
            const std::size_t at = random() % text.size();
            switch (random() % 3) {
                case 0:
                    text[at] = letters[random() % letters.size()];
                    break;
                case 1:
                    text.erase(at, 1 + random() % 5);
                    break;
                default:
                    text.insert(at, 1, letters[random() % letters.size()]);
            }
        }
        try {
            load_resolved({"job.yaml", text}, {}, 4, environment());
        } catch (const ConfigError& error) {
            ++refused;
            ASSERT_FALSE(std::string(error.what()).empty());
        }
    }
    EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace escalier::config
