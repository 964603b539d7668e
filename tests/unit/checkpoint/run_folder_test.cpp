#include "checkpoint/run_folder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/leftovers.h"
#include "checkpoint/retention.h"
#include "checkpoint/trash.h"
#include "core/error.h"
#include "tests/harness/temp_folder.h"
#include "tests/unit/checkpoint/small_checkpoint.h"

namespace escalier::checkpoint {
namespace {

class RunFolderTest : public ::testing::Test {
 protected:
    test::TempFolder folder_;
    PosixFiles files_;
    const std::string& run_ = folder_.path();

    void save(std::int64_t step) { write_small_checkpoint(files_, run_, step); }
    void damage(std::int64_t step) {
        test::TempFolder::put(run_ + "/" + step_directory_name(step) + "/weights-00000.safetensors", "short");
    }
    std::string newest(const std::string& reason = "", std::size_t warnings = 0) {
        const Choice choice = newest_checkpoint(run_);
        EXPECT_NE(choice.reason.find(reason), std::string::npos) << choice.reason;
        EXPECT_EQ(choice.warnings.size(), warnings);
        return choice.directory.empty() ? "" : choice.directory.substr(run_.size() + 1);
    }
};

TEST(StepFolder, NamesHaveEightDigits) {
    EXPECT_EQ(step_directory_name(10), "step_00000010");
    EXPECT_EQ(step_of_directory("step_00000010"), 10);
    EXPECT_EQ(step_of_directory("step_99999999"), 99'999'999);
    for (const char* other : {"step_0000001", "step_000000010", "step_0000001x", "step_-0000001",
                              "Step_00000010", "step_00000010.tmp", ""})
        EXPECT_FALSE(step_of_directory(other)) << other;
}

TEST_F(RunFolderTest, WhatLatestNamesComesFirst) {
    EXPECT_EQ(newest("there is no whole checkpoint"), "");
    save(3);
    EXPECT_EQ(newest("named by " + run_ + "/latest"), "step_00000003");
    save(10);
    save(5);  // of a run that went back
    EXPECT_EQ(newest("named by"), "step_00000005");
}

TEST_F(RunFolderTest, AWholeOneOfALaterStepThanLatestNamesIsTold) {
    for (const std::int64_t step : {3, 4, 5}) save(step);
    EXPECT_EQ(newest_checkpoint(run_).note, "");
    test::TempFolder::put(run_ + "/latest", "step_00000003\n");  // went back, or stopped in saves
    const Choice choice = newest_checkpoint(run_);
    EXPECT_EQ(choice.directory, run_ + "/step_00000003");
    EXPECT_TRUE(choice.warnings.empty());
    EXPECT_EQ(
        choice.note.find(run_ + "/step_00000005 is whole and of a later step than " + run_ + "/latest names"),
        0u)
        << choice.note;
    EXPECT_NE(choice.note.find("Name " + run_ + "/step_00000005 itself"), std::string::npos) << choice.note;
    damage(5);
    EXPECT_EQ(newest_checkpoint(run_).note.find(run_ + "/step_00000004 is whole"), 0u);
    damage(4);
    EXPECT_EQ(newest_checkpoint(run_).note, "");
}

TEST_F(RunFolderTest, WithoutAWholeOneThereTheHighestWholeStepIsTaken) {
    for (const std::int64_t step : {3, 4, 10}) save(step);
    damage(10);
    EXPECT_EQ(newest("the newest whole one", 1), "step_00000004");
    std::filesystem::remove(run_ + "/latest");
    EXPECT_EQ(newest("for there is no " + run_ + "/latest", 1), "step_00000004");
    for (const char* text : {"step_00000099\n", "../step_00000003\n", "", "\n"}) {
        test::TempFolder::put(run_ + "/latest", text);
        EXPECT_EQ(newest("the newest whole one", 2), "step_00000004") << text;
    }
    damage(3);
    damage(4);
    EXPECT_EQ(newest("there is no whole checkpoint", 4), "");
}

TEST_F(RunFolderTest, StepsBeyondLatestAreOfAnotherHistoryAndComeLast) {
    for (const std::int64_t step : {3, 10, 5}) save(step);  // went back to before 5
    damage(5);
    EXPECT_EQ(newest("the newest whole one", 1), "step_00000003");
    damage(3);
    EXPECT_EQ(newest("the newest whole one", 2), "step_00000010") << "better than none";
}

TEST_F(RunFolderTest, WhatTurnedOutToBeUnusableIsPassedOver) {
    for (const std::int64_t step : {3, 4, 5}) save(step);
    const auto without = [&](std::vector<std::int64_t> steps) {
        std::vector<std::string> unusable;
        for (const std::int64_t step : steps) unusable.push_back(run_ + "/" + step_directory_name(step));
        return newest_checkpoint(run_, unusable).directory;
    };
    EXPECT_EQ(without({5}), run_ + "/step_00000004");
    EXPECT_EQ(without({5, 4}), run_ + "/step_00000003");
    EXPECT_EQ(without({4}), run_ + "/step_00000005");
    EXPECT_EQ(without({3, 4, 5}), "");
}

TEST_F(RunFolderTest, RetentionLeavesWhatALinkLeadsTo) {
    save(3);
    const std::string other = run_ + "/elsewhere";
    std::filesystem::create_directory(other);
    std::filesystem::rename(run_ + "/step_00000003", other + "/step_00000003");
    std::filesystem::create_directory_symlink(other + "/step_00000003", run_ + "/step_00000003");
    save(4);
    config::CheckpointConfig config;
    config.keep_last = 1;
    EXPECT_TRUE(remove_expired(files_, run_, 4, config).empty());
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(run_ + "/step_00000003")));
    read_manifest(other + "/step_00000003");
}

TEST_F(RunFolderTest, ListsByStepWithWhatIsWrong) {
    for (const std::int64_t step : {10, 3, 4}) save(step);
    damage(4);
    std::filesystem::copy(run_ + "/step_00000003", run_ + "/step_00000006");
    std::filesystem::create_directory(run_ + "/step_00000007.tmp");
    std::filesystem::create_directory(run_ + "/step_00000008");
    test::TempFolder::put(run_ + "/step_00000009", "a file");
    const std::vector<CheckpointEntry> entries = list_checkpoints(run_);
    ASSERT_EQ(entries.size(), 6u);
    const std::vector<std::pair<std::int64_t, std::string>> expected = {{3, ""},
                                                                        {4, "has 5 bytes"},
                                                                        {6, "its manifest is of step 3"},
                                                                        {8, "manifest.json: is not there"},
                                                                        {9, "no such checkpoint folder"},
                                                                        {10, ""}};
    for (std::size_t i = 0; i < entries.size(); ++i) {
        EXPECT_EQ(entries[i].step, expected[i].first);
        EXPECT_NE(entries[i].fault.find(expected[i].second), std::string::npos) << entries[i].fault;
        EXPECT_EQ(entries[i].fault.empty(), expected[i].second.empty());
    }
    EXPECT_TRUE(list_checkpoints(folder_ / "absent").empty());
    std::filesystem::create_symlink("loop", folder_ / "loop");
    EXPECT_THROW(list_checkpoints(folder_ / "loop"), IoError);
}

// This process's own memory: a file that opens, whose bytes at address 0 cannot be read.
TEST_F(RunFolderTest, AManifestThatCannotBeReadIsTheFaultOfItsCheckpointAlone) {
    for (const std::int64_t step : {3, 4, 5}) save(step);
    const std::string broken = run_ + "/step_00000004/manifest.json";
    std::filesystem::remove(broken);
    std::filesystem::create_symlink("/proc/self/mem", broken);
    const std::vector<CheckpointEntry> entries = list_checkpoints(run_);
    ASSERT_EQ(entries.size(), 3u);
    EXPECT_THROW(read_manifest(run_ + "/step_00000004"), IoError);  // what may pass is no damage
    EXPECT_NE(entries[1].fault.find(broken + ": cannot be read: Input/output error"), std::string::npos)
        << entries[1].fault;
    config::CheckpointConfig config;
    config.keep_last = 1;
    EXPECT_TRUE(remove_expired(files_, run_, 5, config).empty());
    EXPECT_EQ(list_checkpoints(run_).size(), 2u);
    test::TempFolder::put(run_ + "/latest", "step_00000004\n");
    EXPECT_EQ(newest("the newest whole one", 1), "step_00000005");
    std::filesystem::remove(run_ + "/latest");
    std::filesystem::create_symlink("/proc/self/mem", run_ + "/latest");
    EXPECT_EQ(newest("the newest whole one", 1), "step_00000005");
}

TEST_F(RunFolderTest, AFolderWithTheNameOfAnotherStepIsRefused) {
    save(3);
    std::filesystem::rename(run_ + "/step_00000003", run_ + "/best");
    EXPECT_EQ(read_manifest(run_ + "/best").run.step, 3) << "any other name will do";
    std::filesystem::rename(run_ + "/best", run_ + "/step_00000006");
    for (const std::string name : {"/step_00000006", "/step_00000006/"}) try {
            read_manifest(run_ + name);
            ADD_FAILURE() << "accepted";
        } catch (const DataError& error) {
            EXPECT_NE(std::string(error.what()).find("its manifest is of step 3"), std::string::npos)
                << error.what();
        }
}

TEST_F(RunFolderTest, LeftoversGoAndNothingElse) {
    save(3);
    for (const char* name :
         {"step_00000007.tmp", ".trash-step_00000001", "hf", "step_x.tmp", "step_00000008"})
        std::filesystem::create_directories(folder_ / (std::string(name) + "/inner"));
    for (const char* name : {"latest.tmp", "metrics.jsonl", "weights.tmp"})
        test::TempFolder::put(folder_ / name, "x");
    remove_leftovers(files_, run_);
    for (const char* name : {"step_00000007.tmp", ".trash-step_00000001", "latest.tmp"})
        EXPECT_FALSE(std::filesystem::exists(folder_ / name)) << name;
    for (const char* name :
         {"step_00000003", "latest", "hf", "step_x.tmp", "step_00000008", "metrics.jsonl", "weights.tmp"})
        EXPECT_TRUE(std::filesystem::exists(folder_ / name)) << name;
}

TEST_F(RunFolderTest, WhatWasSetAsideForANewerOneThatDidNotComeGetsItsNameBack) {
    for (const std::int64_t step : {3, 4, 5, 6}) save(step);
    for (const std::int64_t step : {3, 4, 5}) set_aside(files_, run_, step);
    save(4);                                       // the newer one came
    move_to_trash(files_, run_, "step_00000006");  // to be removed
    test::TempFolder::put(run_ + "/.trash-aside-step_00000005/weights-00000.safetensors", "short");
    remove_leftovers(files_, run_);
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(run_))
        names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names, (std::vector<std::string>{"latest", "step_00000003", "step_00000004"}));
    EXPECT_EQ(read_manifest(run_ + "/step_00000003").run.step, 3);
}

TEST_F(RunFolderTest, ExpiredOnesGoAndDamagedOnesStay) {
    for (const std::int64_t step : {1, 2, 3, 4, 9}) save(step);
    damage(2);
    config::CheckpointConfig config;
    config.keep_last = 1;
    EXPECT_TRUE(remove_expired(files_, run_, 4, config).empty());
    std::vector<std::int64_t> left;
    for (const CheckpointEntry& entry : list_checkpoints(run_)) left.push_back(entry.step);
    EXPECT_EQ(left, (std::vector<std::int64_t>{2, 4, 9}));
    EXPECT_FALSE(std::filesystem::exists(run_ + "/.trash-step_00000001"));
}

}  // namespace
}  // namespace escalier::checkpoint
