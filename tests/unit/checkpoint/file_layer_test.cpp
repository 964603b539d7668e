#include "checkpoint/file_layer.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include "checkpoint/file_hash.h"
#include "core/error.h"
#include "tests/harness/stopping_files.h"
#include "tests/harness/temp_folder.h"

namespace escalier::checkpoint {
namespace {

class FileLayerTest : public ::testing::Test {
 protected:
    test::TempFolder folder_;
    PosixFiles files_;

    template <class Action>
    std::string refusal(Action&& action) {
        try {
            action();
        } catch (const IoError& error) {
            EXPECT_EQ(error.code(), ExitCode::write_failed);
            return error.what();
        }
        return "done";
    }
};

TEST_F(FileLayerTest, WritesWhatItIsGiven) {
    const std::string path = folder_ / "file";
    test::TempFolder::put(path, "what was there before, which is longer");
    const std::unique_ptr<OutputFile> file = files_.create(path);
    file->write("abc", 3);
    file->write("defg", 4);
    file->sync();
    EXPECT_EQ(test::TempFolder::bytes_of(path), "abcdefg");
}

// Around the size from which the system's cache is passed by, in parts that fit no block.
TEST_F(FileLayerTest, LargeFilesAreWhole) {
    for (const std::size_t bytes : {(8 << 20) - 1, 8 << 20, (8 << 20) + 1, (20 << 20) + 12345}) {
        std::string text(bytes, ' ');
        for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 2654435761 >> 13);
        const std::string path = folder_ / "file";
        const std::unique_ptr<OutputFile> file = files_.create(path);
        for (std::size_t at = 0; at < bytes; at += 1'000'003)
            file->write(text.data() + at, std::min<std::size_t>(1'000'003, bytes - at));
        file->sync();
        EXPECT_TRUE(test::TempFolder::bytes_of(path) == text) << bytes;
    }
}

TEST_F(FileLayerTest, AFullDiskIsNamedWithFileAndSystemError) {
    const std::unique_ptr<OutputFile> file = files_.create("/dev/full");
    const std::string message = refusal([&] {
        file->write("abc", 3);
        file->sync();
    });
    EXPECT_EQ(message.find("/dev/full: cannot be written: No space left on device. Free space"), 0u)
        << message;
}

TEST_F(FileLayerTest, AFileThatMayNotGrowEndsInAnErrorAfterAShortWrite) {
    const auto before = ::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    const std::string path = folder_ / "file";
    const std::unique_ptr<OutputFile> file = files_.create(path);
    rlimit small = limit;
    small.rlim_cur = 1000;
    ::setrlimit(RLIMIT_FSIZE, &small);
    const std::string bytes(3000, 'x');
    const std::string message = refusal([&] {
        file->write(bytes.data(), bytes.size());
        file->sync();
    });
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, before);
    EXPECT_EQ(message.find(path + ": cannot be written: File too large."), 0u) << message;
    EXPECT_EQ(std::filesystem::file_size(path), 1000u);
}

TEST_F(FileLayerTest, EveryOperationNamesWhatItCouldNotDo) {
    const std::string absent = folder_ / "absent";
    EXPECT_EQ(
        refusal([&] { files_.create(absent + "/file"); }).find(absent + "/file: cannot be created: No such"),
        0u);
    EXPECT_EQ(refusal([&] {
                  files_.make_directory(folder_.path());
              }).find(folder_.path() + ": cannot be made: File exists"),
              0u);
    EXPECT_EQ(
        refusal([&] { files_.rename(absent, folder_ / "new"); }).find(absent + ": cannot be renamed to "),
        0u);
    EXPECT_EQ(refusal([&] {
                  files_.exchange(absent, folder_.path());
              }).find(absent + ": cannot change places with "),
              0u);
    EXPECT_EQ(refusal([&] { files_.sync_directory(absent); }).find(absent + ": cannot be opened"), 0u);
    EXPECT_EQ(refusal([&] { files_.remove_file(absent); }).find(absent + ": cannot be removed"), 0u);
    test::TempFolder::put(folder_ / "file", "");
    EXPECT_EQ(refusal([&] {
                  files_.remove_directory(folder_.path());
              }).find(folder_.path() + ": cannot be removed: Directory not empty"),
              0u);
    EXPECT_EQ(refusal([&] { remove_tree(files_, absent); }).find(absent + ": cannot be listed"), 0u);
}

TEST_F(FileLayerTest, TwoFoldersChangePlaces) {
    files_.make_directory(folder_ / "a");
    files_.make_directory(folder_ / "b");
    test::TempFolder::put(folder_ / "a/of_a", "");
    test::TempFolder::put(folder_ / "b/of_b", "");
    ASSERT_TRUE(files_.exchange(folder_ / "a", folder_ / "b"));
    EXPECT_TRUE(std::filesystem::exists(folder_ / "a/of_b"));
    EXPECT_TRUE(std::filesystem::exists(folder_ / "b/of_a"));
}

TEST_F(FileLayerTest, FoldersAreMadeWithThoseAboveThem) {
    for (const std::string name : {"a/b/c", "a/b/d/", "a", "e/../f"}) {
        make_directories(files_, folder_ / name);
        EXPECT_TRUE(std::filesystem::is_directory(folder_ / name)) << name;
    }
    test::TempFolder::put(folder_ / "file", "");
    EXPECT_EQ(refusal([&] {
                  make_directories(files_, folder_ / "file/x/y");
              }).find(folder_ / "file: cannot be made"),
              0u);
}

TEST_F(FileLayerTest, TheNamesOfFoldersThatWereMadeAreDurable) {
    std::filesystem::create_directory(folder_ / "limbo");
    std::filesystem::create_directory(folder_ / "disk");
    test::StoppingFiles files(folder_ / "limbo");
    make_directories(files, folder_ / "disk/a/b/c");
    files.lose(test::Loss::names, folder_ / "disk");
    EXPECT_TRUE(std::filesystem::is_directory(folder_ / "disk/a/b/c"));
}

TEST_F(FileLayerTest, ATreeIsRemovedWithoutFollowingLinks) {
    std::filesystem::create_directories(folder_ / "tree/inner");
    test::TempFolder::put(folder_ / "tree/inner/file", "x");
    test::TempFolder::put(folder_ / "outside", "x");
    std::filesystem::create_symlink(folder_ / "outside", folder_ / "tree/link");
    std::filesystem::create_directory_symlink(folder_.path(), folder_ / "tree/inner/folder_link");
    remove_tree(files_, folder_ / "tree");
    EXPECT_FALSE(std::filesystem::exists(folder_ / "tree"));
    EXPECT_TRUE(std::filesystem::exists(folder_ / "outside"));
}

// The digests of the command xxh128sum.
TEST_F(FileLayerTest, HashesAsTheToolOfThatNameDoes) {
    FileHash empty;
    EXPECT_EQ(empty.hex(), "99aa06d3014798d86001c324468d497f");
    const std::string path = folder_ / "file";
    std::string bytes(3'000'000, 'a');
    test::TempFolder::put(path, bytes);
    FileHash pieces;
    pieces.add(bytes.data(), 1);
    pieces.add(bytes.data(), 999'999);
    pieces.add(bytes.data(), 2'000'000);
    EXPECT_EQ(hash_of_file(path), pieces.hex());
    bytes[2'999'999] = 'b';
    test::TempFolder::put(path, bytes);
    EXPECT_NE(hash_of_file(path), pieces.hex());
    EXPECT_THROW(hash_of_file(folder_ / "absent"), IoError);
}

}  // namespace
}  // namespace escalier::checkpoint
