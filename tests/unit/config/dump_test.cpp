#include "config/dump.h"

#include <gtest/gtest.h>

#include <set>

#include "config/presets.h"
#include "config_test_support.h"

namespace escalier::config {
namespace {

using namespace testing;

// A value of every key that differs from its default, as YAML. All together they make a spec that resolves.
const std::map<std::string, std::string> changed = {
    {"version", "1"},  // the only value there is
    {"run.name", "other"},
    {"run.dir", "elsewhere/runs"},
    {"run.seed", "99"},
    {"run.device", "cpu"},
    {"run.threads", "3"},
    {"run.deterministic", "false"},
    {"run.comm", "mpi"},
    {"run.clock", "sleep"},
    {"run.layer_ms", "2.5"},
    {"run.share_gpu", "true"},
    {"run.comm_timeout_s", "17"},
    {"run.cuda_graphs", "false"},
    {"run.max_minutes", "0.5"},
    {"model.preset", "tiny"},
    {"model.arch", "llama"},
    {"model.num_layers", "6"},
    {"model.hidden_size", "48"},
    {"model.num_heads", "8"},
    {"model.num_kv_heads", "2"},
    {"model.head_dim", "10"},
    {"model.ffn_size", "96"},
    {"model.vocab_size", "301"},
    {"model.max_positions", "512"},
    {"model.tie_embeddings", "false"},
    {"model.qkv_bias", "true"},
    {"model.qk_norm", "true"},
    {"model.norm_eps", "1.25e-06"},
    {"model.rope.theta", "12345.5"},
    {"model.rope.scaling",
     "{type: llama3, factor: 4.0, low_freq_factor: 1.5, high_freq_factor: 3.0, original_max_positions: 77}"},
    {"model.dropout", "0.25"},
    {"parallel.tp", "2"},
    {"parallel.pp", "3"},
    {"parallel.dp", "4"},
    {"pipeline.schedule", "csv"},
    {"pipeline.chunks", "2"},
    {"pipeline.group", "4"},
    {"pipeline.backward", "lifo"},
    {"pipeline.file", "order.csv"},
    {"pipeline.layout", "[1, 1, 1, 1, 1, 1]"},
    {"train.seq_len", "33"},
    {"train.micro_batch", "5"},
    {"train.global_batch", "40"},
    {"train.steps", "11"},
    {"train.dtype", "fp32"},
    {"train.recompute", "[{every: 2}, none, attention, none, none, none]"},
    {"train.memory_gib", "12.5"},
    {"train.on_nonfinite", "skip"},
    {"train.skip_limit", "3"},
    {"train.spike_z", "6.5"},
    {"train.spike_window", "64"},
    {"optimizer.name", "sgd"},
    {"optimizer.beta1", "0.75"},
    {"optimizer.beta2", "0.875"},
    {"optimizer.eps", "1.0e-07"},
    {"optimizer.weight_decay", "0.3"},
    {"optimizer.clip_grad", "2.5"},
    {"lr.peak", "0.017"},
    {"lr.min", "0.003"},
    {"lr.schedule", "linear"},
    {"lr.warmup_steps", "4"},
    {"lr.decay_steps", "9"},
    {"data.train", "[{path: \"a b.bin\", weight: 0.5}, {path: c, weight: 1.0}]"},
    {"data.format", "raw16"},
    {"data.split", "\"90,5,5\""},
    {"data.order", "megatron"},
    {"data.tokenizer", "\"sp:some/file.model\""},
    {"data.allow_change", "true"},
    {"eval.every", "7"},
    {"eval.batches", "3"},
    {"checkpoint.every", "20"},
    {"checkpoint.last", "false"},
    {"checkpoint.keep_last", "5"},
    {"checkpoint.keep_every", "100"},
    {"checkpoint.async", "false"},
    {"checkpoint.resume", "\"runs/some run\""},
    {"log.every", "5"},
    {"log.jsonl", "false"},
    {"log.tensorboard", "true"},
    {"log.prometheus_port", "9100"},
    {"log.trace.start", "3"},
    {"log.trace.steps", "4"},
    {"log.peak_tflops", "989"},
    {"sweep.axes", "{parallel.pp: [1, 3], pipeline.layout: [balanced, [3, 3]], ranks: [24]}"},
    {"sweep.exclude", "[{parallel.pp: 3, ranks: 24}, {pipeline.layout: [3, 3]}]"},
};

std::string value_in(JobSpec spec, const std::string& path) {
    const FieldTable table = table_of(spec);
    return yaml_text(table.find(path)->value);
}

TEST(Dump, EveryKeyComesBackFromFileAndFromSet) {
    JobSpec defaults;
    const FieldTable table = table_of(defaults);
    for (const Field& field : table.all()) {
        ASSERT_TRUE(changed.count(field.path)) << field.path << " has no changed value in this test";
        const std::string& value = changed.at(field.path);
        if (field.path != "version") {
            EXPECT_NE(yaml_text(field.value), value) << field.path;
        }
        EXPECT_FALSE(field.help.empty()) << field.path;
        EXPECT_FALSE(wanted(field.value).empty()) << field.path;

        const JobSpec by_set = loaded("version: 1\n", {field.path + "=" + value});
        EXPECT_EQ(value_in(by_set, field.path), value);

        std::string nested = field.path;
        std::string text;
        int depth = 0;
        for (std::size_t dot; (dot = nested.find('.')) != std::string::npos; nested = nested.substr(dot + 1))
            text += std::string(static_cast<std::size_t>(2 * depth++), ' ') + nested.substr(0, dot) + ":\n";
        text += std::string(static_cast<std::size_t>(2 * depth), ' ') + nested + ": " + value + "\n";
        const Sets preset = field.path == "model.preset" ? Sets{} : Sets{"model.preset=small"};
        const JobSpec by_file = loaded(text, preset);
        EXPECT_EQ(value_in(by_file, field.path), value) << text;
        EXPECT_TRUE(contains(dump(by_file), nested + ": " + value + "\n")) << dump(by_file);
        EXPECT_EQ(loaded(dump(by_file)), by_file) << text;
    }
    for (const auto& entry : changed)
        EXPECT_NE(table.find(entry.first), nullptr) << entry.first << " is no key";
}

TEST(Dump, EveryKeyChangedAtOnceSurvivesResolving) {
    Sets sets;
    for (const auto& [path, value] : changed) sets.push_back(path + "=" + value);
    const JobSpec spec = resolved("version: 1\n", 24, sets);
    for (const auto& [path, value] : changed) EXPECT_EQ(value_in(spec, path), value) << path;
}

TEST(Dump, ResolvedSpecsReadBackTheSame) {
    for (const std::string& preset : preset_names())
        for (const std::int64_t pp : {1, 2, 4})
            for (const std::string recompute : {"none", "attention", "full", "{every: 2}"}) {
                const Sets sets = {"model.preset=" + preset, "parallel.pp=" + std::to_string(pp),
                                   "train.recompute=" + recompute};
                const JobSpec spec = resolved("version: 1\n", 2 * pp, sets);
                const std::string text = dump(spec);
                EXPECT_EQ(load({"config.yaml", text}, {}, environment()).spec, spec) << text;
                EXPECT_EQ(resolve(spec, 2 * pp), spec) << text;
            }
}

TEST(Dump, OddTextIsQuoted) {
    for (const std::string odd :
         {"",          "a: b",        "# x",     "- x",      "null", "~",  "\"q\"", "back\\slash",
          "tab\there", "line\nbreak", "${HOME}", "true",     "*x",   "&x", "!x",    " lead",
          "trail ",    "{",           "[1]",     "\xc3\xa9", "---",  "..."}) {
        JobSpec spec = loaded("model: {preset: tiny}\n");
        spec.run.dir = odd;
        EXPECT_EQ(loaded(dump(spec)).run.dir, odd) << dump(spec);
    }
}

TEST(Dump, NumbersKeepEveryBit) {
    for (const double value : {0.1, 1e-8, 1.0 / 3.0, 5e-324, 3.4028234663852886e38, 123456789.0, 1e22}) {
        JobSpec spec = loaded("model: {preset: tiny}\n");
        spec.lr.peak = value;
        EXPECT_EQ(loaded(dump(spec)).lr.peak, value) << dump(spec);
    }
}

TEST(Dump, OriginsEndEachLine) {
    const Job job = load_resolved({"job.yaml", "model: {preset: tiny}\n"},
                                  {"train.recompute=full", "parallel.pp=2"}, 2, environment());
    const std::string text = dump(job.spec, job.origins);
    EXPECT_EQ(load({"job.yaml", text}, {}, environment()).spec, job.spec);
    for (const std::string part :
         {"  preset: tiny                          # job.yaml:1:17\n", "# preset tiny\n",
          "  pp: 2                                 # --set\n", "# default\n", "# derived from balanced\n",
          "# derived from full (--set)\n"})
        EXPECT_TRUE(contains(text, part)) << part << text;
}

TEST(DumpModel, RoundTrip) {
    for (const std::string& preset : preset_names()) {
        const ModelConfig model = resolved("model: {preset: " + preset + "}\n", 1).model;
        EXPECT_EQ(parse_model(dump_model(model), "weights"), model) << dump_model(model);
    }
    EXPECT_TRUE(contains(message_of([] { parse_model("model: {nun_layers: 3}\n", "w.safetensors"); }),
                         "w.safetensors:1:9: model.nun_layers: unknown key; did you mean model.num_layers?"));
}

}  // namespace
}  // namespace escalier::config
