#include "config/profile.h"

#include <gtest/gtest.h>

#include "config/validate.h"
#include "core/error.h"

namespace escalier::config {
namespace {

JobSpec job(const std::vector<std::string>& overrides = {}) {
    return load_resolved(
               {"job.yaml", "model: {preset: tiny}\ntrain: {seq_len: 64, micro_batch: 2, dtype: fp32}\n"},
               overrides, 1)
        .spec;
}

Profile profile() {
    Profile p;
    p.machine = {"a \"CPU\" (R) @ 2.1GHz", 2, 2, 1};
    p.sizes = {1, 2, 64, "fp32"};
    p.model = job().model;
    p.model.preset.clear();
    p.times.layer = {0.1, 0.2000000001, 1e-7, 3.3333333333333335e-05, 0, 0};
    p.times.optimizer = 6.1e-10;
    return p;
}

std::string refusal(const std::string& text) {
    try {
        parse_profile({"p.yaml", text});
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "";
}

std::string mismatch(const Profile& p, const JobSpec& spec) {
    try {
        require_same_work(p, spec, "p.yaml");
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "";
}

TEST(Profile, ReadsBackToTheSameBits) {
    const Profile p = profile(), read = parse_profile({"p.yaml", dump(p)});
    EXPECT_EQ(read.times, p.times);
    EXPECT_EQ(read.model, p.model);
    EXPECT_EQ(read.machine.processor, p.machine.processor);
    EXPECT_EQ(dump(read), dump(p));
}

TEST(Profile, RefusesWhatIsNone) {
    EXPECT_NE(refusal("").find("a profile as escalier plan --measure writes it"), std::string::npos);
    EXPECT_NE(refusal("version: 1\n").find("p.yaml: model.arch: is needed"), std::string::npos);
    EXPECT_NE(refusal("version: 2\n").find("p.yaml:1:10"), std::string::npos);
    std::string text = dump(profile());
    text.replace(text.find("forward: 0.1"), 9, "forward: -");
    EXPECT_NE(refusal(text).find("wanted a number of at least 0"), std::string::npos);
    EXPECT_NE(refusal(dump(profile()) + "more: 1\n").find("more: unknown key"), std::string::npos);
}

TEST(Profile, IsRefusedForOtherWorkByName) {
    EXPECT_EQ(mismatch(profile(), job()), "");
    // A layer takes as long whatever the number of layers, ranks and micro-batches.
    EXPECT_EQ(mismatch(profile(), job({"model.num_layers=7", "train.global_batch=8"})), "");
    EXPECT_EQ(mismatch(profile(), job({"train.dtype=auto"})), "");
    EXPECT_NE(mismatch(profile(), job({"model.ffn_size=512"})).find("but the job has 512"),
              std::string::npos);
    EXPECT_NE(mismatch(profile(), job({"model.ffn_size=512"}))
                  .find("profile p.yaml was measured with model.ffn_size"),
              std::string::npos);
    EXPECT_NE(mismatch(profile(), job({"train.seq_len=32"})).find("seq_len 64, but the job has 32"),
              std::string::npos);
    EXPECT_NE(mismatch(profile(), job({"train.micro_batch=4"})).find("micro_batch 2"), std::string::npos);
    EXPECT_NE(mismatch(profile(), job({"train.dtype=bf16"})).find("dtype fp32"), std::string::npos);
    EXPECT_NE(mismatch(profile(), job({"run.threads=3"})).find("threads 1, but the job has run.threads 3"),
              std::string::npos);
    EXPECT_NE(mismatch(profile(), job({"run.threads=3"})).find("--measure --out p.yaml"), std::string::npos);
}

}  // namespace
}  // namespace escalier::config
