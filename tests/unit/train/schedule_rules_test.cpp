#include "train/schedule_rules.h"

#include <gtest/gtest.h>

#include <map>

#include "config/validate.h"
#include "core/error.h"
#include "schedule/csv.h"
#include "schedule/generators.h"

namespace escalier::train {
namespace {

const std::string job =
    "model: {arch: gpt2, num_layers: 12, hidden_size: 32, num_heads: 4, vocab_size: 64}\n"
    "train: {seq_len: 16, global_batch: 8}\n";

const std::string deadlock =  // rank 0 waits for 1B0, which rank 1 does after 1F1, which waits for 0F1
    "0F0,0B0,0F1,0B1\n"
    "1F0,1F1,1B1,1B0\n";

config::JobSpec resolve(int pp, const std::string& pipeline,
                        const std::map<std::string, std::string>& files = {}) {
    const config::ScheduleRules rules =
        schedule_rules([&](const std::string& path) { return files.at(path); });
    return config::load_resolved(
               {"job.yaml", job + "parallel: {pp: " + std::to_string(pp) + "}\n" + pipeline}, {}, pp,
               config::process_environment(), rules)
        .spec;
}

std::string fault(int pp, const std::string& pipeline, const std::map<std::string, std::string>& files = {}) {
    try {
        resolve(pp, pipeline, files);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "accepted";
}

TEST(ScheduleRules, EveryKindResolvesToStagesThatItsScheduleHas) {
    for (const schedule::Kind& kind : schedule::kinds()) {
        const config::JobSpec spec = resolve(4, "pipeline: {schedule: " + std::string(kind.name) + "}\n");
        EXPECT_EQ(spec.pipeline.chunks, kind.default_chunks) << kind.name;
        const schedule::Schedule schedule = make_schedule(spec);
        EXPECT_EQ(schedule.stages(), static_cast<int>(spec.pipeline.layers_per_stage.size())) << kind.name;
        EXPECT_EQ(schedule.micro_batches, 8);
        // A resolved spec resolves to itself.
        EXPECT_EQ(config::resolve(spec, 4, schedule_rules()), spec);
    }
    EXPECT_EQ(resolve(4, "pipeline: {schedule: dualpipe}\n").pipeline.layers_per_stage.size(), 4u);
    EXPECT_EQ(resolve(4, "pipeline: {schedule: interleaved, chunks: 3}\n").pipeline.layers_per_stage.size(),
              12u);
}

TEST(ScheduleRules, OptionsReachTheGenerator) {
    const auto csv = [](const std::string& pipeline) {
        return schedule::to_csv(make_schedule(resolve(2, pipeline)));
    };
    EXPECT_NE(csv("pipeline: {schedule: interleaved, group: 8}\n"),
              csv("pipeline: {schedule: interleaved}\n"));
    EXPECT_NE(csv("pipeline: {schedule: bfs, backward: lifo}\n"), csv("pipeline: {schedule: bfs}\n"));
}

struct Refused {
    int pp;
    std::string pipeline;
    std::string message;
};

TEST(ScheduleRules, NameTheKeyAtFault) {
    const std::vector<Refused> cases = {
        {4, "{schedule: 1f1b, chunks: 2}", "job.yaml:4:36: pipeline.chunks: schedule 1f1b: it has one chunk"},
        {4, "{schedule: zbv, backward: lifo}",
         "job.yaml:4:37: pipeline.backward: schedule zbv: it has no backward"},
        {3, "{schedule: dualpipe}",
         "parallel.pp: schedule dualpipe: its pipeline ranks must be even, found 3; use 2 or 4"},
        {4, "{schedule: interleaved, group: 9}",
         "job.yaml:4:42: pipeline.group: schedule interleaved: its group"},
        {4, "{schedule: 1f1b, group: 4}", "pipeline.group: schedule 1f1b: it has no group size"},
        {4, "{schedule: interleaved, chunks: 1}",
         "pipeline.chunks: schedule interleaved: it needs two or more"},
    };
    for (const Refused& c : cases)
        EXPECT_NE(fault(c.pp, "pipeline: " + c.pipeline + "\n").find(c.message), std::string::npos)
            << fault(c.pp, "pipeline: " + c.pipeline + "\n");
}

std::string order(const std::string& kind, int pp, int micro_batches) {
    return schedule::to_csv(schedule::generate({.kind = kind,
                                                .pp = pp,
                                                .chunks = schedule::find_kind(kind)->default_chunks,
                                                .micro_batches = micro_batches}));
}

TEST(ScheduleRules, AFileSaysChunksAndOrder) {
    const config::JobSpec spec =
        resolve(2, "pipeline: {schedule: csv, file: a.csv}\n", {{"a.csv", order("zbv", 2, 8)}});
    EXPECT_EQ(spec.pipeline.chunks, 2);
    EXPECT_EQ(spec.pipeline.layers_per_stage.size(), 4u);
    EXPECT_EQ(schedule::to_csv(make_schedule(spec)), order("zbv", 2, 8));
    // Resolved again, it is not read again.
    const auto never = [](const std::string&) -> std::string { throw std::logic_error("read twice"); };
    EXPECT_EQ(config::resolve(spec, 2, schedule_rules(never)), spec);
}

TEST(ScheduleRules, AFileMustFitAndComplete) {
    const std::string keys = "pipeline: {schedule: csv, file: a.csv";
    const auto said = [&](const std::string& text, const std::string& more = "") {
        return fault(2, keys + more + "}\n", {{"a.csv", text}});
    };
    const auto says = [&](const std::string& text, const std::string& part, const std::string& more = "") {
        const std::string message = said(text, more);
        EXPECT_NE(message.find(part), std::string::npos) << message;
        EXPECT_NE(message.find("job.yaml:4:"), std::string::npos) << message;
    };
    says(order("1f1b", 4, 8),
         "pipeline.file: a.csv does not fit: it has 4 lines, one per pipeline rank, but parallel.pp is 2");
    says(order("1f1b", 2, 4), "a.csv does not fit: it has 4 micro-batches, but the job has 8");
    says(order("zbv", 2, 8), "it has 2 stages per line, but pipeline.chunks is 1", ", chunks: 1");
    says(order("1f1b", 2, 8), "pipeline.group: found 2, but schedule csv takes its order from the file",
         ", group: 2");
    says(order("1f1b", 2, 8), "pipeline.backward: found lifo, but schedule csv", ", backward: lifo");
    says("0F0,hello\n1F0\n", "a.csv:1: cell `hello`");
    says("", "a.csv");
    EXPECT_EQ(said(order("1f1b", 2, 8)), "accepted");
}

// Which rank waits in which action for whom.
TEST(ScheduleRules, AFileThatDeadlocksIsRefusedWithItsCircle) {
    const config::ScheduleRules rules = schedule_rules([](const std::string&) { return deadlock; });
    config::PipelineConfig pipeline;
    pipeline.schedule = "csv";
    pipeline.file = "a.csv";
    const config::ScheduleAnswer answer = rules(pipeline, 2, 2);
    EXPECT_EQ(answer.key, "pipeline.file");
    for (const char* part : {"a.csv", "rank 0", "rank 1", "0B0", "1F1"})
        EXPECT_NE(answer.problem.find(part), std::string::npos) << answer.problem;
}

TEST(ReadScheduleFile, AMissingFileIsAMissingInput) {
    try {
        read_schedule_file("/nowhere/a.csv");
        FAIL();
    } catch (const IoError& error) {
        EXPECT_EQ(error.code(), ExitCode::input_missing);
        EXPECT_NE(std::string(error.what()).find("pipeline.file /nowhere/a.csv"), std::string::npos)
            << error.what();
    }
}

}  // namespace
}  // namespace escalier::train
