#include "train/stop_request.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace escalier::train {
namespace {

TEST(StopRequest, GoesOnUntilASignalComesAndKeepsIt) {
    StopRequest stop;
    EXPECT_EQ(stop.poll(0), 0);
    kill(getpid(), SIGUSR1);  // would end the process if it were not held back
    EXPECT_EQ(StopRequest::name(stop.poll(0)), "SIGUSR1");
    EXPECT_EQ(StopRequest::name(stop.poll(0)), "SIGUSR1");
}

TEST(StopRequest, OneOfSeveralSignalsIsTold) {
    StopRequest stop;
    kill(getpid(), SIGTERM);
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGTERM);
    EXPECT_EQ(StopRequest::name(stop.poll(0)), "SIGTERM");
    EXPECT_EQ(StopRequest::name(stop.poll(0)), "SIGTERM");
}

TEST(StopRequest, TheTimeLimitCountsFromTheStart) {
    StopRequest stop;
    EXPECT_EQ(stop.poll(1e6), 0);
    EXPECT_EQ(StopRequest::name(stop.poll(1e-12)), "run.max_minutes");
    kill(getpid(), SIGUSR1);
    EXPECT_EQ(StopRequest::name(stop.poll(1e-12)), "SIGUSR1") << "a signal is the stronger reason";
}

}  // namespace
}  // namespace escalier::train
