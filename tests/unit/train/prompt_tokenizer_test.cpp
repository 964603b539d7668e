#include "train/prompt_tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "checkpoint/write_checkpoint.h"
#include "core/error.h"
#include "tests/harness/temp_folder.h"

namespace escalier::train {
namespace {

namespace fs = std::filesystem;

const std::string sentencepiece = GOLDEN_DIR "/data/tiny_sentencepiece.model";  // 340 pieces

class PromptTokenizerTest : public ::testing::Test {
 protected:
    // A checkpoint with what `came` holds now.
    ModelSource source(const std::string& tokenizer) const {
        checkpoint::SaveFacts facts;
        facts.config_text = test::TempFolder::bytes_of(GOLDEN_DIR "/pytorch/llama/job.yaml");
        facts.assets_directory = came_;
        checkpoint::PosixFiles files;
        const checkpoint::SafetensorsReader weights(GOLDEN_DIR "/pytorch/llama/weights.safetensors");
        ModelSource opened =
            open_checkpoint(checkpoint::write_checkpoint(folder_ / "run", weights, facts, files));
        opened.about.tokenizer = tokenizer;
        return opened;
    }
    void came_with(const std::string& name, const std::string& text) const {
        test::TempFolder::put(came_ + "/" + name, text);
    }
    static std::string refusal_of(const ModelSource& source, ExitCode code) {
        try {
            open_prompt_tokenizer(source, "");
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), code) << error.what();
            return error.what();
        }
        ADD_FAILURE() << "accepted";
        return "";
    }

    void SetUp() override {
        fs::create_directories(came_);
        fs::create_directories(folder_ / "run");
    }

    const test::TempFolder folder_;
    const std::string came_ = folder_ / "came";
};

TEST_F(PromptTokenizerTest, ThatOfAnImportIsTakenWhereverItLiesNow) {
    EXPECT_EQ(open_prompt_tokenizer(source("byte"), "").tokenizer->vocab_size(), 257);
    fs::copy(sentencepiece, came_ + "/tokenizer.model");
    came_with("tokenizer.json", "{}");  // of the same tokenizer
    for (const char* recorded : {"byte", "sp:gone/step_00000000/hf/tokenizer.model"})
        EXPECT_EQ(open_prompt_tokenizer(source(recorded), "").tokenizer->vocab_size(), 340) << recorded;
    EXPECT_EQ(open_prompt_tokenizer(source("byte"), "byte").tokenizer->vocab_size(), 257) << "named";
    EXPECT_NE(refusal_of(source("sp:mine.model"), ExitCode::input_missing).find("mine.model"),
              std::string::npos)
        << "trained with a tokenizer of the user's";
}

TEST_F(PromptTokenizerTest, OneThatIsNotReadIsRefusedAndNoByteTakesItsPlace) {
    for (const char* name : {"tokenizer.model", "tokenizer.json", "vocab.json"}) {
        came_with(name, "IQ== 0");
        EXPECT_NE(refusal_of(source("byte"), ExitCode::usage).find("--prompt-ids"), std::string::npos)
            << name;
        fs::remove(came_ + "/" + name);
    }
}

TEST_F(PromptTokenizerTest, TheTextBeginsAsTheFilesOfTheImportSay) {
    fs::copy(sentencepiece, came_ + "/tokenizer.model");
    const auto opened = [&](const std::string& tokenizer_config, const std::string& config) {
        came_with("tokenizer_config.json", tokenizer_config);
        came_with("config.json", config);
        return open_prompt_tokenizer(source("byte"), "");
    };
    EXPECT_EQ(opened(R"({"add_bos_token": true})", R"({"bos_token_id": 1})").begin, 1);
    EXPECT_EQ(opened(R"({"add_bos_token": true})", R"({"bos_token_id": 1})").note, "");
    EXPECT_EQ(opened(R"({"add_bos_token": false})", R"({"bos_token_id": 1})").begin, -1);
    EXPECT_EQ(opened(R"({"add_bos_token": false})", "").note, "");
    for (const auto& [tokenizer_config, config] : {std::pair("{}", R"({"bos_token_id": 1})"),
                                                   {R"({"add_bos_token": true})", "{}"},
                                                   {R"({"add_bos_token": true})", R"({"bos_token_id": 340})"},
                                                   {R"({"add_bos_token": true})", R"({"bos_token_id": -1})"},
                                                   {"[", "["}}) {
        const PromptTokenizer prompt = opened(tokenizer_config, config);
        EXPECT_EQ(prompt.begin, -1) << tokenizer_config << config;
        EXPECT_NE(prompt.note.find("add_bos_token"), std::string::npos) << tokenizer_config << config;
    }
}

}  // namespace
}  // namespace escalier::train
