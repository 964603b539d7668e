#include "config/load.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "config_test_support.h"
#include "tests/harness/temp_folder.h"

namespace escalier::config {
namespace {

using namespace testing;

TEST(Load, DefaultsStandWhereNothingIsGiven) {
    const JobSpec spec = loaded("model: {preset: tiny}\n");
    EXPECT_EQ(spec.parallel, ParallelConfig{});
    EXPECT_EQ(spec.train, TrainConfig{});
    EXPECT_EQ(spec.lr, LrConfig{});
    EXPECT_EQ(spec.model.num_layers, 4);
}

TEST(Load, PresetThenFileThenSet) {
    const std::string preset = "model: {preset: tiny}\n";
    EXPECT_EQ(loaded(preset).model.num_heads, 4);
    const std::string file = "model: {num_heads: 8, preset: tiny}\n";
    EXPECT_EQ(loaded(file).model.num_heads, 8);
    EXPECT_EQ(loaded(file, {"model.num_heads=2"}).model.num_heads, 2);
    EXPECT_EQ(loaded(file, {"model.num_heads=2", "model.num_heads=1"}).model.num_heads, 1);
    EXPECT_EQ(loaded(file, {"model.preset=small"}).model.num_layers, 6);
    EXPECT_EQ(loaded(file, {"model={preset: small, vocab_size: 300}"}).model.vocab_size, 300);
}

TEST(Load, KeysBesideAPresetMergeIntoItsScaling) {
    const JobSpec spec = loaded("model: {preset: llama3.1-8b, rope: {scaling: {factor: 2.0}}}\n");
    ASSERT_TRUE(spec.model.rope.scaling);
    EXPECT_EQ(spec.model.rope.scaling->factor, 2.0);
    EXPECT_EQ(spec.model.rope.scaling->original_max_positions, 8192);
    EXPECT_EQ(
        loaded("model: {preset: llama3.1-8b}\n", {"model.rope.scaling.factor=3"}).model.rope.scaling->factor,
        3.0);
    EXPECT_FALSE(loaded("model: {preset: llama3.1-8b}\n", {"model.rope.scaling=null"}).model.rope.scaling);
}

TEST(Load, EveryShapeOfLayoutAndRecompute) {
    const std::string job = "model: {preset: tiny}\n";
    EXPECT_EQ(loaded(job, {"pipeline.layout=even"}).pipeline.layout, "even");
    EXPECT_EQ(loaded(job, {"pipeline.layout=[1, 3]"}).pipeline.layers_per_stage,
              (std::vector<std::int64_t>{1, 3}));
    EXPECT_EQ(loaded(job, {"train.recompute=attention"}).train.recompute,
              (std::vector{Recompute::attention}));
    const JobSpec every = loaded(job, {"train.recompute={every: 3}"});
    EXPECT_EQ(every.train.recompute, (std::vector{Recompute::full}));
    EXPECT_EQ(every.train.recompute_every, 3);
    const JobSpec stages = loaded(job, {"train.recompute=[{every: 2}, none, attention]"});
    EXPECT_EQ(stages.train.recompute, (std::vector{Recompute::full, Recompute::none, Recompute::attention}));
    EXPECT_EQ(stages.train.recompute_every, 2);
}

TEST(Load, NumbersAreReadAsYamlWritesThem) {
    const std::string job = "model: {preset: tiny}\n";
    EXPECT_EQ(loaded(job, {"lr.peak=1e-3"}).lr.peak, 1e-3);
    EXPECT_EQ(loaded(job, {"lr.peak=1.5E+2"}).lr.peak, 150.0);
    EXPECT_EQ(loaded(job, {"lr.peak=0"}).lr.peak, 0.0);
    EXPECT_EQ(loaded(job, {"run.seed=9223372036854775807"}).run.seed, INT64_MAX);
}

TEST(Load, VariablesAreExpandedInValues) {
    const auto with = [](const std::string& value, std::map<std::string, std::string> variables) {
        return load({"job.yaml", "model: {preset: tiny}\nrun:\n  dir: " + value + "\n"}, {},
                    environment(variables))
            .spec.run.dir;
    };
    EXPECT_EQ(with("${BASE}/runs", {{"BASE", "/data"}}), "/data/runs");
    EXPECT_EQ(with("${BASE:-/tmp}/${WHO:-me}", {{"WHO", "you"}}), "/tmp/you");
    EXPECT_EQ(with("${BASE:-x}", {{"BASE", ""}}), "x");
    EXPECT_EQ(with("a$b", {}), "a$b");
    EXPECT_EQ(with("\"$${X}\"", {}), "${X}");
    const Job job =
        load({"job.yaml", "model: {preset: tiny}\ntrain:\n  steps: ${STEPS:-7}\n"}, {}, environment());
    EXPECT_EQ(job.spec.train.steps, 7);
}

TEST(Load, VariablesThatCannotBeExpandedAreNamed) {
    const auto dir = [](const std::string& value) {
        return load_fault("model: {preset: tiny}\nrun:\n  dir: " + value + "\n");
    };
    EXPECT_TRUE(contains(dir("${NOWHERE}"), "job.yaml:3:8: run.dir: found ${NOWHERE}")) << dir("${NOWHERE}");
    EXPECT_TRUE(contains(dir("${NOWHERE}"), "NOWHERE is not set; set it or write ${NOWHERE:-default}"));
    EXPECT_TRUE(contains(dir("${OPEN"), "${ has no closing }"));
    EXPECT_TRUE(contains(dir("${1x}"), "is no name of an environment variable"));
}

TEST(Load, RunIsNamedAfterTheFile) {
    EXPECT_EQ(load({"jobs/first.try.yaml", "model: {preset: tiny}\n"}, {}, environment()).spec.run.name,
              "first.try");
    EXPECT_EQ(loaded("model: {preset: tiny}\nrun: {name: mine}\n").run.name, "mine");
}

TEST(Load, OriginsSayWhereValuesCameFrom) {
    const Job job = load_resolved({"job.yaml", "model: {preset: tiny}\ntrain:\n  steps: 5\n"},
                                  {"lr.peak=0.5"}, 1, environment());
    EXPECT_EQ(job.origins.at("train.steps"), "job.yaml:3:10");
    EXPECT_EQ(job.origins.at("model.num_heads"), "preset tiny");
    EXPECT_EQ(job.origins.at("lr.peak"), "--set");
    EXPECT_EQ(job.origins.at("lr.decay_steps"), "derived from auto");
    EXPECT_EQ(job.origins.count("lr.min"), 0u);
}

class JobFiles : public ::testing::Test {
 protected:
    std::string path(const std::string& name) const { return folder_ / name; }
    const test::TempFolder folder_;
};

TEST_F(JobFiles, TextComesBackAsItStands) {
    std::ofstream(path("job.yaml")) << "model: {preset: tiny}\r\n";
    const JobFile file = read_job_file(path("job.yaml"));
    EXPECT_EQ(file.text, "model: {preset: tiny}\r\n");
    EXPECT_EQ(load(file, {}, environment()).spec.model.preset, "tiny");
}

TEST_F(JobFiles, MissingFileIsMissingInput) {
    try {
        read_job_file(path("absent.yaml"));
        FAIL() << "accepted";
    } catch (const IoError& error) {
        EXPECT_EQ(error.code(), ExitCode::input_missing);
        EXPECT_TRUE(contains(error.what(), "absent.yaml: No such file")) << error.what();
    }
}

TEST_F(JobFiles, FolderIsAUsageError) {
    EXPECT_TRUE(contains(message_of([&] { read_job_file(folder_.path()); }),
                         "is a folder; give the YAML file in it"));
}

TEST_F(JobFiles, APipeWithoutAWriterIsRefusedAtOnce) {
    ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
    try {
        read_job_file(path("pipe"));
        FAIL() << "accepted";
    } catch (const IoError& error) {
        EXPECT_EQ(error.code(), ExitCode::input_missing);
        EXPECT_TRUE(contains(error.what(), path("pipe") + " is not a plain file")) << error.what();
    }
}

// As process substitution does it: the writer is there before the reader.
TEST_F(JobFiles, APipeWithAWriterIsReadToItsEnd) {
    ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
    const int writer = ::open(path("pipe").c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(writer, 0);
    const std::string text(200'000, '#');  // more than a pipe holds
    std::thread thread([&] {
        for (std::size_t done = 0; done < text.size();)
            done += static_cast<std::size_t>(::write(writer, text.data() + done, text.size() - done));
        ::close(writer);
    });
    const JobFile file = read_job_file(path("pipe"));
    thread.join();
    EXPECT_EQ(file.text, text);
}

TEST_F(JobFiles, HugeFileIsNoJobSpec) {
    std::ofstream(path("tokens.bin")) << std::string((std::size_t{1} << 20) + 1, 'x');
    EXPECT_TRUE(contains(message_of([&] { read_job_file(path("tokens.bin")); }), "larger than 1 MiB"));
}

}  // namespace
}  // namespace escalier::config
