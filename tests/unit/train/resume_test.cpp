#include "train/resume.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "checkpoint/write_checkpoint.h"
#include "config/dump.h"
#include "core/error.h"
#include "tests/harness/temp_folder.h"

namespace escalier::train {
namespace {

namespace fs = std::filesystem;

// One matrix of ones.
class Ones : public checkpoint::TensorSource {
 public:
    const std::string& path() const override { return path_; }
    const std::map<std::string, checkpoint::TensorInfo>& tensors() const override { return tensors_; }
    void read_box(const std::string&, const model::Box& box, bool, float* out) const override {
        std::fill_n(out, box.extent.elements(), 1.0f);
    }

 private:
    std::string path_ = "ones";
    std::map<std::string, checkpoint::TensorInfo> tensors_ = {{"wte.weight", {"F32", {3, 2}}}};
};

config::JobSpec job(const std::string& dir) {
    config::JobSpec spec;
    spec.run.dir = dir;
    spec.run.name = "job";
    spec.model.num_layers = 1;
    spec.model.hidden_size = 2;
    spec.model.num_heads = 1;
    spec.model.vocab_size = 3;
    return spec;
}

class ResumeTest : public ::testing::Test {
 protected:
    void SetUp() override {
        spec_ = job(folder_ + "/runs");
        run_ = folder_ + "/runs/job";
    }

    void save(const std::string& run_directory, std::int64_t step) {
        fs::create_directories(run_directory);
        checkpoint::SaveFacts facts;
        facts.run.step = step;
        facts.config_text = config::dump(spec_);
        checkpoint::PosixFiles files;
        checkpoint::write_checkpoint(run_directory, Ones(), facts, files);
    }
    StartPoint choose(const std::string& resume) {
        spec_.checkpoint.resume = resume;
        return choose_start(spec_);
    }
    template <class Kind>
    std::string refusal(const std::string& resume) {
        try {
            choose(resume);
        } catch (const Kind& error) {
            return error.what();
        }
        return "not refused";
    }
    static bool any_note(const StartPoint& start, const std::string& text) {
        return std::any_of(start.notes.begin(), start.notes.end(),
                           [&](const auto& note) { return note.find(text) != std::string::npos; });
    }

    const test::TempFolder temporary_;
    const std::string folder_ = temporary_.path();
    std::string run_;
    config::JobSpec spec_;
};

TEST_F(ResumeTest, NoneBeginsAnewWhateverIsThere) {
    save(run_, 5);
    const StartPoint start = choose("none");
    EXPECT_EQ(start.checkpoint, "");
    EXPECT_EQ(start.run_directory, "");
}

TEST_F(ResumeTest, AutoStartsARunThatIsNotThere) {
    const StartPoint start = choose("auto");
    EXPECT_EQ(start.checkpoint, "");
    EXPECT_EQ(start.run_directory, "");
    EXPECT_TRUE(any_note(start, "there is no run in " + run_));
}

TEST_F(ResumeTest, AutoGoesOnInAFolderThatHasNoCheckpointYet) {
    fs::create_directories(run_);
    const StartPoint start = choose("auto");
    EXPECT_EQ(start.checkpoint, "");
    EXPECT_EQ(start.run_directory, run_);
    EXPECT_TRUE(any_note(start, "has no checkpoint yet"));
}

TEST_F(ResumeTest, AutoTakesTheNewestAndSaysWhy) {
    save(run_, 5);
    save(run_, 10);
    const StartPoint start = choose("auto");
    EXPECT_EQ(start.checkpoint, run_ + "/step_00000010");
    EXPECT_EQ(start.run_directory, run_);
    EXPECT_TRUE(any_note(start, "latest"));
}

TEST_F(ResumeTest, AutoDoesNotBeginAnewWhereEveryCheckpointIsDamaged) {
    save(run_, 5);
    fs::remove(run_ + "/step_00000005/manifest.json");
    const std::string message = refusal<DataError>("auto");
    EXPECT_NE(message.find(run_ + "/step_00000005"), std::string::npos) << message;
}

TEST_F(ResumeTest, ANamedStepIsTakenThoughLaterOnesAreThere) {
    save(run_, 5);
    save(run_, 10);
    for (const std::string& path : {run_ + "/step_00000005", run_ + "/step_00000005/"}) {
        const StartPoint start = choose(path);
        EXPECT_EQ(start.checkpoint, run_ + "/step_00000005");
        EXPECT_EQ(start.run_directory, run_);
        EXPECT_TRUE(any_note(start, "step_00000010 and later ones stay"));
    }
}

TEST_F(ResumeTest, ARunFolderMeansItsNewest) {
    save(run_, 5);
    EXPECT_EQ(choose(run_).checkpoint, run_ + "/step_00000005");
    EXPECT_EQ(choose(run_ + "/").run_directory, run_);
}

TEST_F(ResumeTest, OnlyARunsOwnFolderIsGoneOnIn) {
    save(run_ + "-2", 5);
    EXPECT_EQ(choose(run_ + "-2").run_directory, run_ + "-2");
    for (const std::string& other : {run_ + "-2b", run_ + "s", folder_ + "/elsewhere/job"}) {
        save(other, 5);
        const StartPoint start = choose(other);
        EXPECT_EQ(start.checkpoint, other + "/step_00000005");
        EXPECT_EQ(start.run_directory, "") << other;
    }
}

TEST_F(ResumeTest, WhatIsNotThereIsRefusedWithWhatIs) {
    save(run_, 5);
    save(run_, 10);
    const std::string step = refusal<IoError>(run_ + "/step_00000007");
    EXPECT_NE(step.find("has steps 5, 10"), std::string::npos) << step;
    EXPECT_NE(refusal<IoError>(folder_ + "/rnus").find("there is no folder"), std::string::npos);
    fs::create_directories(folder_ + "/empty");
    const std::string empty = refusal<IoError>(folder_ + "/empty");
    EXPECT_NE(empty.find("there is no checkpoint in " + folder_ + "/empty"), std::string::npos) << empty;
}

TEST_F(ResumeTest, AnotherModelIsRefusedByTensorAndByKey) {
    save(run_, 0);
    const checkpoint::CheckpointReader reader(run_ + "/step_00000000");
    const auto state = [](const std::string& name, Shape shape) {
        return checkpoint::StateList{{name,
                                      checkpoint::StateKind::weight,
                                      shape,
                                      false,
                                      {Shape{0, 0}, shape},
                                      true,
                                      TensorView(nullptr, DType::f32, shape)}};
    };
    require_same_tensors(reader, state("wte.weight", {3, 2}));
    try {
        require_same_tensors(reader, state("wte.weight", {4, 2}));
        ADD_FAILURE() << "accepted";
    } catch (const DataError& error) {
        EXPECT_NE(std::string(error.what()).find("'wte.weight' is [3, 2], but [4, 2]"), std::string::npos)
            << error.what();
    }
    EXPECT_THROW(require_same_tensors(reader, state("wpe.weight", {3, 2})), DataError);

    spec_.model.norm_eps = 1e-6;
    try {
        compare_with_checkpoint(reader, spec_, "");
        ADD_FAILURE() << "accepted";
    } catch (const DataError& error) {
        EXPECT_NE(std::string(error.what()).find("model.norm_eps was 1.0e-05 and is 1.0e-06"),
                  std::string::npos)
            << error.what();
    }
}

TEST_F(ResumeTest, WeightsAloneStartAnyTraining) {
    save(run_, 0);
    const checkpoint::CheckpointReader reader(run_ + "/step_00000000");
    spec_.run.seed = 7;
    spec_.optimizer.name = "sgd";
    spec_.train.seq_len = 64;
    spec_.model.dropout = 0.1;
    EXPECT_TRUE(compare_with_checkpoint(reader, spec_, "0123456789abcdef").empty());
}

}  // namespace
}  // namespace escalier::train
