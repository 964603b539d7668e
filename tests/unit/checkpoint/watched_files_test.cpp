#include "checkpoint/watched_files.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>

#include "checkpoint/stall.h"
#include "core/error.h"
#include "tests/harness/temp_folder.h"

namespace escalier::checkpoint {
namespace {

// Shows what is said while an operation is under way.
class InsideFiles : public PosixFiles {
 public:
    std::function<void()> look;
    void rename(const std::string& from, const std::string& to) override {
        look();
        PosixFiles::rename(from, to);
    }
};

TEST(WatchedFiles, EveryOperationMovesAndNamesItsPlace) {
    const test::TempFolder folder;
    InsideFiles inside;
    WatchedFiles files(inside);
    std::uint64_t before = files.moves();
    const auto moved = [&](const std::string& place) {
        const bool moved = files.moves() > before && files.place() == folder / place;
        before = files.moves();
        return moved;
    };
    files.make_directory(folder / "a");
    EXPECT_TRUE(moved("a"));
    {
        const std::unique_ptr<OutputFile> file = files.create(folder / "a/file");
        EXPECT_TRUE(moved("a/file"));
        file->write("text", 4);
        EXPECT_TRUE(moved("a/file"));
        file->sync();
        EXPECT_TRUE(moved("a/file"));
    }
    EXPECT_TRUE(moved("a/file"));
    files.sync_directory(folder / "a");
    EXPECT_TRUE(moved("a"));
    inside.look = [&] { EXPECT_TRUE(moved("b")); };  // begun, not ended
    files.rename(folder / "a", folder / "b");
    EXPECT_TRUE(moved("b"));
    std::ifstream in(folder / "b/file");
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "text");
    files.remove_file(folder / "b/file");
    EXPECT_TRUE(moved("b/file"));
    files.remove_directory(folder / "b");
    EXPECT_TRUE(moved("b"));
    EXPECT_THROW(files.remove_file(folder / "b/file"), IoError);
    EXPECT_TRUE(moved("b/file"));
}

TEST(Stall, CountsTheTimeWithoutAMove) {
    Stall stall;
    stall.begin(7, 100);
    EXPECT_EQ(stall.look(7, 103, 60), 3);
    EXPECT_EQ(stall.look(7, 110, 60), 10);
    EXPECT_EQ(stall.look(8, 111, 60), 0) << "it got on";
    EXPECT_EQ(stall.look(8, 112, 60), 1);
    stall.begin(8, 200);
    EXPECT_EQ(stall.look(8, 201, 60), 1) << "a new save, with no move yet";
}

TEST(Stall, ATimeWithoutLooksIsNoProofOfAStall) {
    Stall stall;
    stall.begin(7, 0);
    EXPECT_EQ(stall.look(7, 10000, 60), 60);
    EXPECT_EQ(stall.look(7, 10001, 60), 61);
}

}  // namespace
}  // namespace escalier::checkpoint
