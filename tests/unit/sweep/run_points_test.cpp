#include "sweep/run_points.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "sweep_test_support.h"
#include "tests/harness/temp_folder.h"

namespace escalier::sweep {
namespace {

using testing::contains;
using testing::expanded;

class RunPoints : public ::testing::Test {
 protected:
    // Each point by the command that `programs` has for it.
    RunSummary run(const std::vector<std::vector<std::string>>& programs) {
        const SweepFolder folder(temporary_ / "sweep");
        folder.create();
        if (before_) before_(folder);
        RunRequest request;
        for (const Point& point : sweep_.points) request.points.push_back(&point);
        request.jobs = 3;
        request.command = [&](const Point& point, const std::vector<std::string>&) {
            return programs.at(static_cast<std::size_t>(point.index));
        };
        request.say = [&](const std::string& line) { said_ += line + "\n"; };
        return run_points(sweep_, folder, request);
    }

    const test::TempFolder temporary_;
    const Sweep sweep_ = expanded("{axes: {lr.peak: [0.1, 0.2, 0.3]}}");
    std::function<void(const SweepFolder&)> before_;
    std::string said_;
};

TEST_F(RunPoints, OneThatCannotStartLeavesThoseBesideIt) {
    const RunSummary summary = run({{"/bin/sleep", "0.3"}, {"/nowhere/escalier"}, {"/bin/false"}});
    EXPECT_EQ(summary.done, 1);
    EXPECT_EQ(summary.failed, 2);
    EXPECT_EQ(summary.exit_code(), 1);
    EXPECT_TRUE(contains(said_, "[  0] peak-0.1: done in ")) << said_;
    EXPECT_TRUE(contains(said_, "[  1] peak-0.2: FAILED: /nowhere/escalier cannot be started: No such file"))
        << said_;
}

TEST_F(RunPoints, EndAlsoWhereWhoStartedTheSweepIgnoredTheEndsOfProcesses) {
    ASSERT_NE(::signal(SIGCHLD, SIG_IGN), SIG_ERR);
    const RunSummary summary = run({{"/bin/true"}, {"/bin/false"}, {"/bin/true"}});
    EXPECT_EQ(::signal(SIGCHLD, SIG_DFL), SIG_IGN);  // as it was before
    EXPECT_EQ(summary.done, 2);
    EXPECT_EQ(summary.failed, 1);
}

TEST_F(RunPoints, OneWhoseFilesCannotBeWrittenLeavesThoseBesideIt) {
    before_ = [&](const SweepFolder& folder) {
        std::filesystem::create_directories(folder.log(sweep_.points[0].name));
        std::filesystem::create_directories(folder.outcome(sweep_.points[1].name) + "/full");
    };
    const RunSummary summary = run({{"/bin/true"}, {"/bin/true"}, {"/bin/sleep", "0.3"}});
    EXPECT_EQ(summary.done, 1);
    EXPECT_EQ(summary.failed, 2);
    EXPECT_TRUE(contains(said_, "peak-0.1.log cannot be written")) << said_;
    EXPECT_TRUE(contains(said_, "[  2] peak-0.3: done in ")) << said_;
}

}  // namespace
}  // namespace escalier::sweep
