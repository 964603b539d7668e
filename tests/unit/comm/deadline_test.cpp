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
    { const Deadline deadline(0.1, "MPI has not started", "look for a stopped process", 1); }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // it would be gone by now
}

}  // namespace
}  // namespace escalier::comm
