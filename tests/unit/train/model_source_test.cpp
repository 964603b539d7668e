#include "train/model_source.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "checkpoint/run_folder.h"
#include "checkpoint/write_checkpoint.h"
#include "core/error.h"
#include "tests/harness/temp_folder.h"

namespace escalier::train {
namespace {

namespace fs = std::filesystem;

class ModelSourceTest : public ::testing::Test {
 protected:
    // The fixture's weights as a checkpoint, with this config.yaml.
    std::string save(std::int64_t step, const std::string& config) {
        checkpoint::SaveFacts facts;
        facts.run.step = step;
        facts.config_text = config;
        checkpoint::PosixFiles files;
        const checkpoint::SafetensorsReader weights(GOLDEN_DIR "/pytorch/llama/weights.safetensors");
        return checkpoint::write_checkpoint(run_, weights, facts, files);
    }

    static std::string config() {
        std::ifstream file(GOLDEN_DIR "/pytorch/llama/job.yaml");
        return {std::istreambuf_iterator<char>(file), {}};
    }

    template <class Function>
    static std::string message_of(ExitCode code, const Function& function) {
        try {
            function();
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), code) << error.what();
            return error.what();
        }
        ADD_FAILURE() << "accepted";
        return "";
    }

    const test::TempFolder folder_;
    const std::string run_ = folder_.path();
};

TEST_F(ModelSourceTest, ARunIsItsNewestCheckpointAndAStepFolderIsItself) {
    const std::string older = save(3, config()), newer = save(12, config());
    EXPECT_EQ(find_checkpoint(older).directory, older);
    EXPECT_EQ(find_checkpoint(older + "/").directory, older + "/");
    EXPECT_EQ(find_checkpoint(older).note, "");
    EXPECT_EQ(find_checkpoint(run_).directory, newer);
    EXPECT_NE(find_checkpoint(run_).note.find("latest"), std::string::npos);
    fs::remove(newer + "/manifest.json");
    const FoundCheckpoint found = find_checkpoint(run_);
    EXPECT_EQ(found.directory, older);
    EXPECT_NE(found.note.find("step_00000012"), std::string::npos) << found.note;
}

TEST_F(ModelSourceTest, TheModelIsThatOfTheConfigBesideTheWeights) {
    const ModelSource source = open_checkpoint(save(3, config() + "eval: {every: 5}\n"));
    EXPECT_EQ(source.about.model.arch, config::Arch::llama);
    EXPECT_EQ(source.about.model.num_kv_heads, 2);
    EXPECT_EQ(source.about.seq_len, 12);
    EXPECT_EQ(source.about.tokenizer, "byte");
    EXPECT_EQ(source.weights().tensors().at("model.norm.weight").text(), "F32 [32]");
}

TEST_F(ModelSourceTest, WhatIsNotThereOrDamagedIsRefusedByName) {
    EXPECT_NE(message_of(ExitCode::input_missing, [&] { find_checkpoint(run_ + "/gone"); }).find("gone"),
              std::string::npos);
    EXPECT_NE(message_of(ExitCode::input_missing, [&] { find_checkpoint(run_); }).find("no whole checkpoint"),
              std::string::npos);
    EXPECT_NE(message_of(ExitCode::input_missing, [&] { open_checkpoint(run_ + "/step_00000007"); })
                  .find("step_00000007"),
              std::string::npos);
    for (const std::string text : {"model: {arch: llama, num_layers: 0}\n", "model: [", "{}\n"})
        EXPECT_NE(message_of(ExitCode::data_corrupt, [&] { open_checkpoint(save(4, text)); })
                      .find("config.yaml describes no model"),
                  std::string::npos)
            << text;
    const std::string step = save(5, config());
    fs::remove(step + "/config.yaml");
    EXPECT_NE(message_of(ExitCode::data_corrupt, [&] { open_checkpoint(step); }).find("config.yaml"),
              std::string::npos);
}

}  // namespace
}  // namespace escalier::train
