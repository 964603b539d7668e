#include "comm/launch_guard.h"

#include <gtest/gtest.h>

#include <map>

namespace escalier::comm {
namespace {

Environment with(const std::map<std::string, std::string>& variables) {
    return [variables](const char* name) -> const char* {
        static thread_local std::string value;
        const auto found = variables.find(name);
        if (found == variables.end()) return nullptr;
        value = found->second;
        return value.c_str();
    };
}

constexpr int before_init = 0;

TEST(LaunchGuard, AcceptsProperLaunches) {
    const std::map<std::string, std::string> mpirun = {{"OMPI_COMM_WORLD_SIZE", "4"}};
    const std::map<std::string, std::string> mpirun_in_a_step = {
        {"OMPI_COMM_WORLD_SIZE", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "0"}};
    const std::map<std::string, std::string> srun = {
        {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "1"}, {"PMIX_RANK", "1"}};
    const std::map<std::string, std::string> srun_of_one = {{"SLURM_STEP_NUM_TASKS", "1"},
                                                            {"SLURM_PROCID", "0"}};
    EXPECT_EQ(launch_problem(with({}), before_init), "");
    EXPECT_EQ(launch_problem(with({}), 1), "");
    EXPECT_EQ(launch_problem(with(mpirun), before_init), "");
    EXPECT_EQ(launch_problem(with(mpirun), 4), "");
    EXPECT_EQ(launch_problem(with(mpirun_in_a_step), 1), "");
    EXPECT_EQ(launch_problem(with(srun), before_init), "");
    EXPECT_EQ(launch_problem(with(srun), 4), "");
    EXPECT_EQ(launch_problem(with(srun_of_one), before_init), "");
    EXPECT_EQ(launch_problem(with(srun_of_one), 1), "");
}

TEST(LaunchGuard, RefusesSingletonsUnderSrun) {
    std::map<std::string, std::string> srun = {{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "2"}};
    const std::string problem = launch_problem(with(srun), before_init);
    EXPECT_NE(problem.find("4 tasks"), std::string::npos) << problem;
    EXPECT_NE(problem.find("`srun --mpi=pmix` or mpirun"), std::string::npos) << problem;
    srun["PMIX_RANK"] = "2";  // there, yet of no use to this MPI library
    EXPECT_EQ(launch_problem(with(srun), before_init), "");
    EXPECT_EQ(launch_problem(with(srun), 1), problem);
}

TEST(LaunchGuard, RefusesTheMpirunOfAnotherInstallation) {
    const std::string problem = launch_problem(with({{"OMPI_COMM_WORLD_SIZE", "4"}}), 1);
    EXPECT_NE(problem.find("started 4 processes"), std::string::npos) << problem;
    EXPECT_NE(problem.find("sees 1"), std::string::npos) << problem;
}

}  // namespace
}  // namespace escalier::comm
