// main() of a test binary that mpirun starts: every rank runs all tests, in the same order; rank 0 reports. A
// test that one rank fails ends the job, for the others may be waiting inside it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "tests/harness/multirank_env.h"

namespace escalier::test {

class StopAtFailure final : public ::testing::EmptyTestEventListener {
    void OnTestPartResult(const ::testing::TestPartResult& result) override {
        if (!result.failed()) return;
        std::fprintf(stderr, "rank %d: %s:%d: %s\n", env().world().rank(),
                     result.file_name() ? result.file_name() : "?", result.line_number(), result.summary());
        std::fflush(stderr);
        failed_ = true;
    }
    void OnTestEnd(const ::testing::TestInfo& info) override {
        if (failed_)
            env().abort(1, std::string("test ") + info.test_suite_name() + "." + info.name() + " failed");
    }
    bool failed_ = false;
};

}  // namespace escalier::test

int main(int argc, char** argv) {
    ::testing::InitGoogleTest(&argc, argv);
    escalier::comm::MpiEnv env(&argc, &argv);
    escalier::test::environment = &env;
    env.start_watchdog(60);
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    if (env.world().rank() != 0) delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new escalier::test::StopAtFailure);
    const int code = RUN_ALL_TESTS();
    env.world().barrier("the end of the tests");
    return code;
}
