#include "comm/deadline.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace escalier::comm {
namespace {

TEST(DeadlineDeathTest, EndsAProcessThatDoesNotGoOn) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            const Deadline deadline(0.05, "MPI has not started", "look for a stopped process", 75);
            for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
        },
        ::testing::ExitedWithCode(75), "MPI has not started within 0 s: look for a stopped process");
}

TEST(Deadline, LeavesAProcessAloneThatWentOn) {
    const auto begin = std::chrono::steady_clock::now();
    { const Deadline deadline(30, "MPI has not started", "look for a stopped process", 1); }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

}  // namespace
}  // namespace escalier::comm
