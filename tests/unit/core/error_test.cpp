#include "core/error.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>

namespace escalier {
namespace {

TEST(FailureOf, AnErrorSaysItself) {
    const Failure failure = failure_of(IoError::write("x: disk full"));
    EXPECT_EQ(failure.code, ExitCode::write_failed);
    EXPECT_EQ(failure.message, "x: disk full");
}

TEST(FailureOf, APathOfWhichTheSystemTellsNothing) {
    try {
        std::ignore = std::filesystem::is_directory(std::string(300, 'x'));
        FAIL() << "no name is that long";
    } catch (const std::exception& error) {
        const Failure failure = failure_of(error);
        EXPECT_EQ(failure.code, ExitCode::input_missing);
        EXPECT_EQ(failure.message, std::string(300, 'x') + ": File name too long");
    }
}

TEST(FailureOf, AnythingElse) {
    const Failure failure = failure_of(std::runtime_error("odd"));
    EXPECT_EQ(failure.code, ExitCode::failed);
    EXPECT_EQ(failure.message, "odd");
}

}  // namespace
}  // namespace escalier
