#include "comm/start_deadline.h"

#include <gtest/gtest.h>

namespace escalier::comm {
namespace {

TEST(StartDeadlineDeathTest, EndsAProcessThatDoesNotStart) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            const StartDeadline deadline(0.05);
            for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
        },
        ::testing::ExitedWithCode(1), "MPI has not started within 0 s: a process of this launch has stopped");
}

TEST(StartDeadline, LeavesAProcessAloneThatHasStarted) {
    { const StartDeadline deadline(0.1); }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // it would be gone by now
}

}  // namespace
}  // namespace escalier::comm
