#include "train/run_directory.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "tests/harness/temp_folder.h"

namespace escalier::train {
namespace {

namespace fs = std::filesystem;

class RunDirectoryTest : public ::testing::Test {
 protected:
    void SetUp() override {
        run_.dir = folder_ + "/runs";
        run_.name = "job";
    }

    const test::TempFolder temporary_;
    const std::string folder_ = temporary_.path();
    config::RunConfig run_;
};

TEST_F(RunDirectoryTest, AFreshStartGoesBesideWhatIsThereAndSaysSo) {
    EXPECT_TRUE(RunDirectory(run_).note().empty());
    const RunDirectory second(run_), third(run_);
    EXPECT_EQ(second.path(), run_.dir + "/job-2");
    EXPECT_EQ(third.path(), run_.dir + "/job-3");
    EXPECT_NE(second.note().find("job-2"), std::string::npos);
}

TEST_F(RunDirectoryTest, ARunOfAFixedNameDoesNotGoBesideOneThatAnotherJobBegan) {
    EXPECT_EQ(RunDirectory(run_, true).path(), run_.dir + "/job");
    EXPECT_THROW(RunDirectory(run_, true), IoError);
    EXPECT_FALSE(fs::exists(run_.dir + "/job-2"));
}

TEST_F(RunDirectoryTest, OneJobAtATimeHoldsAFolder) {
    std::string path;
    {
        const RunDirectory first(run_);
        path = first.path();
        try {
            RunDirectory(path, 0);
            FAIL() << "two jobs in one folder";
        } catch (const IoError& error) {
            EXPECT_EQ(error.code(), ExitCode::write_failed);
            EXPECT_NE(std::string(error.what()).find(path + " is in use by another job"), std::string::npos)
                << error.what();
        }
    }
    EXPECT_EQ(RunDirectory(path, 0).path(), path) << "the lock ends with its holder";
}

TEST_F(RunDirectoryTest, ASmallFileIsReplacedAsAWhole) {
    const RunDirectory directory(run_);
    directory.write("config.yaml", "first, and longer");
    directory.write("config.yaml", "second");
    std::ifstream in(directory.file("config.yaml"));
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "second");
    EXPECT_FALSE(fs::exists(directory.file("config.yaml.part")));
}

TEST_F(RunDirectoryTest, AnUnfinishedLineIsCutOffBeforeMoreIsAppended) {
    const RunDirectory directory(run_);
    const auto after = [&](const std::string& before) {
        std::ofstream(directory.file("metrics.jsonl"), std::ios::trunc) << before;
        directory.append("metrics.jsonl") << "new\n";
        std::ifstream in(directory.file("metrics.jsonl"));
        return std::string(std::istreambuf_iterator<char>(in), {});
    };
    EXPECT_EQ(after(""), "new\n");
    EXPECT_EQ(after("{\"step\":1}\n"), "{\"step\":1}\nnew\n");
    EXPECT_EQ(after("{\"step\":1}\n{\"st"), "{\"step\":1}\nnew\n");
    EXPECT_EQ(after("{\"st"), "new\n");
}

TEST_F(RunDirectoryTest, AFileInTheWayIsSteppedOver) {
    fs::create_directories(run_.dir);
    std::ofstream(run_.dir + "/job") << "not a folder";
    EXPECT_EQ(RunDirectory(run_).path(), run_.dir + "/job-2");
}

TEST_F(RunDirectoryTest, AFolderThatCannotBeMadeIsRefusedByName) {
    std::ofstream(folder_ + "/file") << "x";
    run_.dir = folder_ + "/file/runs";
    try {
        RunDirectory directory(run_);
        FAIL() << "accepted";
    } catch (const IoError& error) {
        EXPECT_EQ(error.code(), ExitCode::write_failed);
        EXPECT_NE(std::string(error.what()).find("file/runs"), std::string::npos) << error.what();
    }
}

TEST_F(RunDirectoryTest, RequireWritableRefusesFoldersAndKeepsFiles) {
    const std::string file = folder_ + "/new/folder/weights.safetensors";
    require_writable(file);
    EXPECT_TRUE(fs::is_directory(folder_ + "/new/folder"));
    EXPECT_TRUE(fs::is_empty(folder_ + "/new/folder"));
    std::ofstream(file) << "precious";
    require_writable(file);
    EXPECT_EQ(fs::file_size(file), 8u);
    EXPECT_THROW(require_writable(folder_ + "/new"), IoError);
    EXPECT_THROW(require_writable(file + "/below"), IoError);
}

}  // namespace
}  // namespace escalier::train
