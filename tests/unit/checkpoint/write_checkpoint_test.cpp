#include "checkpoint/write_checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/reader.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "tests/harness/stopping_files.h"
#include "tests/harness/temp_folder.h"

namespace escalier::checkpoint {
namespace {

class WriteCheckpointTest : public ::testing::Test {
 protected:
    test::TempFolder folder_;
    const std::string run_ = folder_ / "run", assets_ = folder_ / "assets",
                      weights_ = folder_ / "w.safetensors";

    WriteCheckpointTest() {
        for (const std::string& name : {run_, assets_, folder_ / "limbo"})
            std::filesystem::create_directory(name);
        test::TempFolder::put(assets_ + "/tokenizer.json", "{}");
        test::TempFolder::put(assets_ + "/merges.txt", std::string(3'000'000, 'm'));
        std::filesystem::create_directory(assets_ + "/folder");
        write_weights(1.5f);
    }
    void write_weights(float last) {
        SafetensorsWriter writer(weights_, {{"a.weight", {2, 3}}, {"b.bias", {2}}}, {});
        writer.append(std::vector<float>{1, 2, 3, 4, 5, 6});
        writer.append(std::vector<float>{-1, last});
        writer.finish();
    }
    SaveFacts facts() const {
        SaveFacts facts;
        facts.config_text = "version: 1\n";
        facts.assets_directory = assets_;
        return facts;
    }
    bool whole(const std::string& directory) const {
        const CheckpointReader reader(directory);
        for (std::size_t file = 0; file < reader.manifest().files.size(); ++file) reader.verify_file(file);
        std::vector<float> a(6);
        reader.tensors(StateKind::weight).read_box("a.weight", {{0, 0}, {2, 3}}, false, a.data());
        EXPECT_EQ(test::TempFolder::bytes_of(reader.assets_directory() + "/merges.txt").size(), 3'000'000u);
        EXPECT_TRUE(std::filesystem::exists(reader.assets_directory() + "/tokenizer.json"));
        EXPECT_TRUE(reader.tensors(StateKind::exp_avg).tensors().empty());
        return a == std::vector<float>{1, 2, 3, 4, 5, 6} && reader.manifest().run.optimizer == "none";
    }
};

TEST_F(WriteCheckpointTest, HoldsTheWeightsAndTheFilesThatCameWithThem) {
    PosixFiles files;
    const std::string directory = write_checkpoint(run_, SafetensorsReader(weights_), facts(), files);
    EXPECT_EQ(directory, run_ + "/step_00000000");
    EXPECT_TRUE(whole(directory));
    EXPECT_EQ(newest_checkpoint(run_).directory, directory);
    EXPECT_EQ(write_checkpoint(run_, SafetensorsReader(weights_), facts(), files), directory) << "once more";
    EXPECT_TRUE(whole(directory));
}

TEST_F(WriteCheckpointTest, AWholeOneOrNoneIsThereAfterEveryOperation) {
    for (std::int64_t operations = 0;; ++operations) {
        std::filesystem::remove_all(run_);
        std::filesystem::create_directory(run_);
        test::StoppingFiles files(folder_ / "limbo");
        files.stop_after(operations);
        bool done = false;
        try {
            write_checkpoint(run_, SafetensorsReader(weights_), facts(), files);
            done = true;
        } catch (const IoError& error) {
            EXPECT_EQ(error.code(), ExitCode::write_failed);
        }
        const bool stopped = files.stopped();
        files.lose(test::Loss::both, run_);
        for (const CheckpointEntry& entry : list_checkpoints(run_)) EXPECT_EQ(entry.fault, "");
        const Choice choice = newest_checkpoint(run_);
        if (done || !choice.directory.empty()) {
            EXPECT_TRUE(whole(choice.directory));
        }
        if (!stopped) break;
    }
}

TEST_F(WriteCheckpointTest, WhatCannotBeWrittenLeavesNothing) {
    std::int64_t failures = 0;
    for (std::int64_t operations = 0;; ++operations) {
        std::filesystem::remove_all(run_);
        std::filesystem::create_directory(run_);
        test::StoppingFiles files(folder_ / "limbo");
        files.fail_after(operations);
        try {
            write_checkpoint(run_, SafetensorsReader(weights_), facts(), files);
        } catch (const IoError& error) {
            ++failures;
            EXPECT_EQ(error.code(), ExitCode::write_failed);
            EXPECT_FALSE(std::filesystem::exists(run_ + "/step_00000000.tmp"));
        }
        if (!files.stopped()) break;
        files.lose(test::Loss::nothing, run_);
    }
    EXPECT_GT(failures, 15);
}

// This process's own memory: a file that opens, whose bytes at address 0 cannot be read.
TEST_F(WriteCheckpointTest, AFileThatCannotBeReadToItsEndIsNotCarriedAlongCutShort) {
    std::filesystem::create_symlink("/proc/self/mem", assets_ + "/vocab.json");
    PosixFiles files;
    try {
        write_checkpoint(run_, SafetensorsReader(weights_), facts(), files);
        ADD_FAILURE() << "accepted";
    } catch (const IoError& error) {
        EXPECT_EQ(error.code(), ExitCode::input_missing);
        EXPECT_EQ(std::string(error.what()).find(assets_ + "/vocab.json: cannot be read: "), 0u)
            << error.what();
    }
    EXPECT_TRUE(std::filesystem::is_empty(run_));
}

TEST_F(WriteCheckpointTest, NanIsRefusedByName) {
    write_weights(std::nanf(""));
    PosixFiles files;
    try {
        write_checkpoint(run_, SafetensorsReader(weights_), facts(), files);
        ADD_FAILURE() << "accepted";
    } catch (const DataError& error) {
        EXPECT_EQ(std::string(error.what()).find(weights_ + ": tensor 'b.bias' has nan at ["), 0u)
            << error.what();
    }
    EXPECT_TRUE(std::filesystem::is_empty(run_));
}

}  // namespace
}  // namespace escalier::checkpoint
