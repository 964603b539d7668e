#include "launch/host_check.h"

#include <gtest/gtest.h>

namespace escalier::launch {
namespace {

constexpr const char* reached = "escalier-launch: reached\n";
constexpr const char* has_orted = "escalier-launch: orted\n";
constexpr const char* has_program = "escalier-launch: program\n";
constexpr const char* same_version = "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org\n";

std::string problem(const HostAnswer& answer) {
    return host_problem(answer, "ssh", "/opt/escalier", "4.1.4");
}

TEST(HostCheck, AsksForOrtedAndProgram) {
    const std::string question = host_question("/opt/my escalier");
    EXPECT_NE(question.find("command -v orted"), std::string::npos);
    EXPECT_NE(question.find("[ -x '/opt/my escalier' ]"), std::string::npos) << question;
}

TEST(HostCheck, AcceptsAHostThatIsReady) {
    const std::string ready = std::string("Welcome\n") + reached + has_orted + has_program;
    EXPECT_EQ(problem({"b", true, 0, ready + same_version}), "");
    EXPECT_EQ(problem({"b", true, 127, ready}), "");  // no mpirun there, which is not needed
}

TEST(HostCheck, NamesWhatIsWrong) {
    EXPECT_EQ(problem({"b", true, 255, "ssh: connect to host b port 22: No route to host\n\n"}),
              "host b: it cannot be reached: `ssh b` ended with 255: ssh: connect to host b port 22: No "
              "route to host. "
              "Logging in must work without a password; --agent names another remote-start command");
    EXPECT_NE(problem({"b", false, 137, ""}).find("host b: no answer"), std::string::npos);
    EXPECT_NE(problem({"b", true, 0, std::string(reached) + has_program + same_version})
                  .find("host b: Open MPI's orted is not in PATH of a shell there. Install Open MPI 4.1.4"),
              std::string::npos);
    EXPECT_NE(
        problem({"b", true, 0, std::string(reached) + has_orted + has_program + "mpirun (Open MPI) 4.0.3\n"})
            .find("host b: Open MPI 4.0.3 is installed there and 4.1.4 here"),
        std::string::npos);
    EXPECT_NE(problem({"b", true, 0, std::string(reached) + has_orted + same_version})
                  .find("host b: there is no program /opt/escalier"),
              std::string::npos);
}

TEST(HostCheck, ReadsVersions) {
    EXPECT_EQ(open_mpi_version("mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org\n"),
              "4.1.4");
    EXPECT_EQ(open_mpi_version("mpirun (Open MPI) 5.0.1rc2"), "5.0.1rc2");
    EXPECT_EQ(open_mpi_version("HYDRA build details"), "");
}

}  // namespace
}  // namespace escalier::launch
