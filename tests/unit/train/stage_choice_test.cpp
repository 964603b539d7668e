// Layouts by measured times and recompute: auto, through the job spec.
#include "train/stage_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "config/dump.h"
#include "config/profile.h"
#include "config/validate.h"
#include "core/error.h"
#include "plan/candidates.h"
#include "plan/stage_times.h"
#include "tests/harness/temp_folder.h"
#include "train/schedule_rules.h"

namespace escalier::train {
namespace {

using config::JobSpec;
using config::Recompute;

constexpr double gib = 1024.0 * 1024 * 1024;

JobSpec resolve(const std::string& more, const std::vector<std::string>& overrides = {},
                std::int64_t ranks = 4) {
    const std::string text =
        "model: {arch: llama, num_layers: 12, hidden_size: 512, num_heads: 8, ffn_size: 1024, vocab_size: "
        "32000, "
        "tie_embeddings: false}\nparallel: {pp: 4}\n" +
        more;
    return config::load_resolved({"job.yaml", text}, overrides, ranks, config::process_environment(),
                                 schedule_rules())
        .spec;
}

constexpr const char* batch = "train: {seq_len: 256, micro_batch: 2, global_batch: 16, dtype: fp32";

std::string refusal(const std::string& more, const std::vector<std::string>& overrides = {}) {
    try {
        resolve(more, overrides);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

class ProfileFile {
 public:
    explicit ProfileFile(double head) {
        config::Profile profile;
        profile.sizes = {1, 2, 256, "fp32"};
        profile.model = resolve(std::string(batch) + "}\n").model;
        profile.times.layer = {1, 2, 1, 1, 0, 0};
        profile.times.embedding = {0.5, 0.5, 0.5, 0, 0, 0};
        profile.times.head = {head, 0, 0, 0, 0, 0};
        std::ofstream(path) << config::dump(profile);
    }

 private:
    const test::TempFolder folder_;

 public:
    const std::string path = folder_ / "profile.yaml";
};

TEST(StageChoice, LayoutByAProfile) {
    const auto layout = [](double head) {
        const ProfileFile file(head);
        return resolve(std::string(batch) + "}\npipeline: {layout: " + file.path + "}\n")
            .pipeline.layers_per_stage;
    };
    // 12 layers of 3 s, an embedding of 1 s and a head; the slowest stage decides, then the sum of squares.
    EXPECT_EQ(layout(0), (std::vector<std::int64_t>{3, 3, 3, 3}));
    EXPECT_EQ(layout(4), (std::vector<std::int64_t>{3, 3, 4, 2}));
    EXPECT_EQ(layout(9), (std::vector<std::int64_t>{3, 4, 4, 1}));
    EXPECT_EQ(layout(90), (std::vector<std::int64_t>{3, 4, 4, 1}));
}

TEST(StageChoice, ResolvedSpecRecordsTheList) {
    const ProfileFile file(9);
    const JobSpec spec = resolve(std::string(batch) + "}\npipeline: {layout: " + file.path + "}\n");
    const std::string text = config::dump(spec);
    EXPECT_NE(text.find("layout: [3, 4, 4, 1]"), std::string::npos) << text;
    EXPECT_EQ(config::load_resolved({"again.yaml", text}, {}, 4).spec,
              spec);  // the profile is not read again
}

TEST(StageChoice, ProfileOfOtherWorkIsRefused) {
    const ProfileFile file(9);
    const std::string job = std::string(batch) + "}\npipeline: {layout: " + file.path + "}\n";
    EXPECT_NE(
        refusal(job, {"train.micro_batch=4"}).find("was measured with micro_batch 2, but the job has 4"),
        std::string::npos);
    EXPECT_NE(refusal(job, {"model.ffn_size=2048"}).find("model.ffn_size 1024, but the job has 2048"),
              std::string::npos);
    EXPECT_NE(refusal(std::string(batch) + "}\npipeline: {layout: absent.yaml}\n")
                  .find("profile absent.yaml: No such"),
              std::string::npos);
    EXPECT_NE(refusal(std::string(batch) + "}\npipeline: {layout: balancd}\n")
                  .find("a profile such as profile.yaml"),
              std::string::npos);
}

TEST(StageChoice, AutoNeedsALimitThatHoldsTheModel) {
    EXPECT_NE(refusal(std::string(batch) + ", recompute: auto}\n").find("give the GiB of a rank"),
              std::string::npos);
    EXPECT_NE(refusal(std::string(batch) + ", recompute: auto, memory_gib: 0.01}\n").find("hold no layout"),
              std::string::npos);
    EXPECT_NE(refusal(std::string(batch) + ", recompute: [auto, none, none, none], memory_gib: 1}\n")
                  .find("train.recompute"),
              std::string::npos);
}

TEST(StageChoice, TypesThatAreAutoAreThoseOfTheDevice) {
    int differ = 0;
    for (const char* limit : {"0.4", "0.5", "0.6", "0.7"}) {
        const auto chosen = [&](const std::string& dtype, const std::string& device) {
            const std::string job =
                "run: {device: " + device +
                "}\ntrain: {seq_len: 256, micro_batch: 2, global_batch: 16, dtype: " + dtype +
                ", recompute: auto, memory_gib: " + limit + "}\npipeline: {layout: even}\n";
            return refusal(job).empty() ? resolve(job).train.recompute : std::vector<Recompute>();
        };
        EXPECT_EQ(chosen("auto", "cuda"), chosen("bf16", "cuda")) << limit;
        EXPECT_EQ(chosen("auto", "cpu"), chosen("fp32", "cpu")) << limit;
        differ += chosen("auto", "cuda") != chosen("fp32", "cuda");
    }
    EXPECT_GT(differ, 0);
}

TEST(StageChoice, AutoTakesTheLeastThatFits) {
    const auto spec = [](const std::string& limit) {
        return resolve(std::string(batch) + ", recompute: auto, memory_gib: " + limit +
                       "}\npipeline: {layout: even}\n");
    };
    EXPECT_EQ(spec("64.0").train.recompute, std::vector<Recompute>(4, Recompute::none));
    plan::Candidate c;
    c.grid = {1, 4, 1};
    c.schedule = "1f1b";
    c.micro_batch = 2;
    c.micro_batches = 8;
    const JobSpec roomy = spec("64.0");
    int mixed = 0;
    for (const char* limit : {"0.6", "0.5", "0.45", "0.4", "0.35"}) {
        if (!refusal(std::string(batch) + ", recompute: auto, memory_gib: " + limit +
                     "}\npipeline: {layout: even}\n")
                 .empty())
            continue;
        const std::vector<Recompute> chosen = spec(limit).train.recompute;
        for (int stage = 0; stage < 4; ++stage) {
            const auto bytes = [&](Recompute recompute) {
                return plan::stage_bytes(c, roomy, stage, 3, recompute);
            };
            const Recompute mine = chosen[static_cast<std::size_t>(stage)];
            const double most = std::stod(limit) * gib;
            EXPECT_LE(bytes(mine), most);
            if (mine != Recompute::none) {
                EXPECT_GT(bytes(Recompute::none), most);
            }
            if (mine == Recompute::full) {
                EXPECT_GT(bytes(Recompute::attention), most);
            }
        }
        mixed += std::adjacent_find(chosen.begin(), chosen.end(), std::not_equal_to<>()) != chosen.end();
    }
    EXPECT_GT(mixed, 0);  // 1f1b keeps more alive on early stages, which recompute more
}

}  // namespace
}  // namespace escalier::train
