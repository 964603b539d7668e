#include "sweep/folder.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/harness/temp_folder.h"

namespace escalier::sweep {
namespace {

using test::TempFolder;

template <class Make>
std::string refusal(Make&& make) {
    try {
        make();
    } catch (const IoError& error) {
        EXPECT_EQ(error.code(), ExitCode::write_failed);
        return error.what();
    }
    return "accepted";
}

TEST(SweepLock, KeepsASecondSweepOut) {
    const TempFolder temporary;
    const SweepFolder folder(temporary.path() + "/runs/a-sweep");
    folder.create();
    folder.create();  // is there already
    {
        const SweepLock first(folder);
        EXPECT_EQ(
            refusal([&] { SweepLock second(folder); }),
            "sweep folder " + folder.path() +
                " is in use by another `escalier sweep run`. Wait for its end, or give this one another "
                "run.name.");
        EXPECT_NE(refusal([&] { SweepLock point(folder, "pp-1"); }), "accepted");
    }
    const SweepLock again(folder);
}

TEST(SweepLock, LetsPointsOfAnArrayRunBesideEachOther) {
    const TempFolder temporary;
    const SweepFolder folder(temporary.path());
    folder.create();
    const SweepLock first(folder, "pp-1");
    const SweepLock second(folder, "pp-2");
    EXPECT_NE(refusal([&] { SweepLock whole(folder); }), "accepted");
    EXPECT_NE(refusal([&] { SweepLock same(folder, "pp-1"); }).find("point " + folder.run("pp-1")),
              std::string::npos);
    const SweepLock third(folder, "pp-3");  // the refusal before holds nothing any more
}

TEST(SweepFolder, PutsFilesAndFoldersInTheirPlaces) {
    const TempFolder temporary;
    const SweepFolder folder(temporary.path());
    folder.create();
    folder.write(folder.file("table.md"), "one");
    folder.write(folder.file("table.md"), "two");
    EXPECT_EQ(TempFolder::bytes_of(folder.file("table.md")), "two");
    for (int number = 1; number <= 2; ++number) {
        temporary.write("pp-1/metrics.jsonl", std::to_string(number));
        const std::string moved = folder.move_away("pp-1");
        EXPECT_EQ(moved, folder.run("pp-1") + ".before-" + std::to_string(number));
        EXPECT_EQ(TempFolder::bytes_of(moved + "/metrics.jsonl"), std::to_string(number));
        EXPECT_FALSE(std::filesystem::exists(folder.run("pp-1")));
    }
    EXPECT_NE(refusal([&] {
                  SweepFolder("/proc/none").create();
              }).find("sweep folder /proc/none cannot be created"),
              std::string::npos);
}

}  // namespace
}  // namespace escalier::sweep
