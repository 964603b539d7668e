#include "sweep/outcome.h"

#include <gtest/gtest.h>

#include "tests/harness/temp_folder.h"

namespace escalier::sweep {
namespace {

TEST(LastMessage, IsEscaliersOwnThoughTheLauncherSpeaksLast) {
    EXPECT_EQ(last_message(
                  "step 1\nescalier: first\nstep 2\nescalier: data/a.bin: not there\n"
                  "-------\nmpirun detected that one or more processes exited with non-zero status\n-----\n"),
              "data/a.bin: not there");
    EXPECT_EQ(last_message("escalier: 2 errors in the job spec\n  train.steps: a\n  lr.peak: b\nother\n"),
              "2 errors in the job spec; train.steps: a; lr.peak: b");
    EXPECT_EQ(last_message("loading\nKilled\r\n\n----\n"), "Killed");
    EXPECT_EQ(last_message(""), "");
    EXPECT_LE(last_message("escalier: " + std::string(5000, 'x')).size(), 600u);
    EXPECT_EQ(last_message("escalier: a\tb\x1b[0m"), "a b [0m");
}

TEST(Outcome, ComesBackFromItsFile) {
    const test::TempFolder folder;
    const Outcome outcome{65, "it \"said\" \xff so", 1.5, "mpirun -n 2 escalier"};
    const auto read = read_outcome(folder.write("a.json", to_json(outcome)));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->exit_code, 65);
    EXPECT_EQ(read->message.substr(0, 9), "it \"said\"");
    EXPECT_EQ(read->seconds, 1.5);
    EXPECT_EQ(read->command, "mpirun -n 2 escalier");
}

TEST(Outcome, OfAnotherFileIsNone) {
    const test::TempFolder folder;
    EXPECT_FALSE(read_outcome(folder.path() + "/none.json"));
    for (const std::string text : {"", "{", "[]", "{}", "{\"exit_code\": \"1\", \"message\": 3}"})
        EXPECT_FALSE(read_outcome(folder.write("a.json", text))) << text;
}

}  // namespace
}  // namespace escalier::sweep
