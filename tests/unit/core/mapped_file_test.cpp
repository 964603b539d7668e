#include "core/mapped_file.h"

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

class MappedFileTest : public ::testing::Test {
 protected:
    std::string path(const std::string& name) const { return folder_ / name; }
    void expect_refused(const std::string& file) const {
        try {
            const MappedFile mapped(file);
            ADD_FAILURE() << file << " was accepted";
        } catch (const IoError& error) {
            EXPECT_EQ(error.code(), ExitCode::input_missing);
            EXPECT_EQ(std::string(error.what()).find(file + ": "), 0u) << error.what();
        }
    }

    const test::TempFolder folder_;
};

TEST_F(MappedFileTest, HoldsTheBytesOfAFileAndOfALinkToIt) {
    std::ofstream(path("a")) << "abc";
    std::filesystem::create_symlink("a", path("link"));
    for (const char* name : {"a", "link"}) {
        const MappedFile file(path(name));
        EXPECT_EQ(std::string(file.bytes().begin(), file.bytes().end()), "abc");
    }
    std::ofstream(path("empty"));
    EXPECT_EQ(MappedFile(path("empty")).size(), 0);
}

// A pipe without a writer must not make the opening wait.
TEST_F(MappedFileTest, RefusesWhatIsNoPlainFile) {
    ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
    std::filesystem::create_symlink("pipe", path("link"));
    for (const std::string& file :
         {path("pipe"), path("link"), path("absent"), folder_.path(), std::string("/dev/null")})
        expect_refused(file);
}

}  // namespace
}  // namespace escalier
