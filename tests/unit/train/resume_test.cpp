#include "train/resume.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/unit/train/checkpoint_of_ones.h"

namespace escalier::train {
namespace {

using ResumeTest = test::RunOfOnesTest;

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

TEST_F(ResumeTest, AnOrderMadeForAWholeRunIsNotRunPastItsEnd) {
    spec_.data.order = "megatron";
    spec_.train.steps = 10;
    spec_.train.global_batch = 8;
    checkpoint::SaveFacts facts;
    facts.run.step = 5;
    facts.run.consumed_samples = 40;
    facts.run.optimizer = spec_.optimizer.name = "sgd";  // without moments
    facts.config_text = config::dump(spec_);
    checkpoint::PosixFiles files;
    std::filesystem::create_directories(run_);
    checkpoint::write_checkpoint(run_, test::Ones(), facts, files);
    const checkpoint::CheckpointReader reader(run_ + "/step_00000005");
    EXPECT_TRUE(compare_with_checkpoint(reader, spec_, "").empty());

    spec_.train.steps = 20;  // as many samples, and so the same order
    spec_.train.global_batch = 4;
    try {
        compare_with_checkpoint(reader, spec_, "");
        ADD_FAILURE() << "accepted";
    } catch (const DataError& error) {
        EXPECT_NE(std::string(error.what())
                      .find("megatron is made for 80 samples, train.steps x "
                            "train.global_batch; from sample 40 on, 15 more steps of "
                            "train.global_batch 4 would end at 100"),
                  std::string::npos)
            << error.what();
    }
    spec_.data.order = "native";
    spec_.data.allow_change = true;
    EXPECT_FALSE(compare_with_checkpoint(reader, spec_, "0123456789abcdef").empty());
    spec_.data.order = "megatron";
    spec_.train.steps = 5;  // all done
    EXPECT_FALSE(compare_with_checkpoint(reader, spec_, "").empty());
}

}  // namespace
}  // namespace escalier::train
