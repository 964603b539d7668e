#include "core/write_target.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/error.h"
#include "tests/harness/temp_folder.h"

namespace escalier {
namespace {

namespace fs = std::filesystem;

class WriteTargetTest : public ::testing::Test {
 protected:
    std::string path(const std::string& name) const { return folder_ / name; }
    void expect_refused(const std::string& file) const {
        try {
            write_target(file);
            ADD_FAILURE() << file << " was accepted";
        } catch (const IoError& error) {
            EXPECT_EQ(error.code(), ExitCode::write_failed);
            EXPECT_EQ(std::string(error.what()).find(file + ": "), 0u) << error.what();
        }
    }

    const test::TempFolder folder_;
};

TEST_F(WriteTargetTest, IsThePathItselfWithoutALink) {
    std::ofstream(path("file")) << "x";
    for (const std::string& file : {path("file"), path("new"), path("absent/new"), std::string("new")})
        EXPECT_EQ(write_target(file), file);
}

TEST_F(WriteTargetTest, FollowsLinksToOldAndNewFiles) {
    std::ofstream(path("file")) << "x";
    fs::create_directory(path("folder"));
    fs::create_symlink("../file", path("folder/relative"));
    fs::create_symlink(path("folder/relative"), path("absolute"));
    fs::create_symlink("folder/new", path("dangling"));
    EXPECT_TRUE(fs::equivalent(write_target(path("absolute")), path("file")));
    EXPECT_FALSE(fs::is_symlink(write_target(path("absolute"))));
    EXPECT_EQ(write_target(path("dangling")), path("folder/new"));
}

TEST_F(WriteTargetTest, RefusesWhatIsNoPlainFile) {
    ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
    fs::create_symlink("/dev/null", path("device"));
    fs::create_symlink("circle", path("circle"));
    for (const std::string& file : {path("pipe"), path("device"), path("circle"), folder_.path(),
                                    std::string("/dev/null"), std::string()})
        expect_refused(file);
}

}  // namespace
}  // namespace escalier
