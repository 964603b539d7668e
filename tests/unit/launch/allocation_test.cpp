#include "launch/allocation.h"

#include <gtest/gtest.h>

#include <map>

#include "core/error.h"

namespace escalier::launch {
namespace {

config::Environment with(const std::map<std::string, std::string>& variables) {
    return [variables](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        if (found == variables.end()) return std::nullopt;
        return found->second;
    };
}

TEST(Allocation, IsWhatSlurmSays) {
    EXPECT_FALSE(slurm_allocation(with({})));
    EXPECT_FALSE(slurm_allocation(with({{"SLURM_NTASKS", "4"}})));  // a job has a number
    const auto whole = slurm_allocation(with({{"SLURM_JOB_ID", "7"},
                                              {"SLURM_JOB_NUM_NODES", "3"},
                                              {"SLURM_JOB_CPUS_PER_NODE", "8(x2),4"},
                                              {"SLURM_NTASKS", "10"},
                                              {"SLURM_CPUS_PER_TASK", "2"},
                                              {"SLURM_GPUS_ON_NODE", "4"}}));
    ASSERT_TRUE(whole);
    EXPECT_EQ(whole->nodes, 3);
    EXPECT_EQ(whole->cpus, 20);
    EXPECT_EQ(whole->tasks, 10);
    EXPECT_EQ(whole->cpus_per_task, 2);
    EXPECT_EQ(whole->gpus_per_node, 4);
    const auto bare = slurm_allocation(with({{"SLURM_JOB_ID", "7"}}));
    ASSERT_TRUE(bare);
    EXPECT_EQ(bare->nodes, 1);
    EXPECT_EQ(bare->cpus, 0);
    EXPECT_EQ(bare->tasks, 0);
}

TEST(Allocation, TakesNoNumberFromSpoiltText) {
    for (const char* text :
         {"", "8(x", "8(x2", "8(y2)", "eight", "8,,4", "99999999999999999999", "-4", "8(x0)", "4;"})
        EXPECT_EQ(slurm_allocation(with({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_CPUS_PER_NODE", text}}))->cpus, 0)
            << text;
}

TEST(Allocation, RefusesToBeStartedByEveryTask) {
    const std::map<std::string, std::string> task = {{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_NUM_TASKS", "4"}};
    try {
        slurm_allocation(with(task));
        FAIL() << "not refused";
    } catch (const ConfigError& error) {
        EXPECT_NE(std::string(error.what()).find("4 copies"), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find("without srun"), std::string::npos) << error.what();
    }
    EXPECT_TRUE(slurm_allocation(with({{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_NUM_TASKS", "1"}})));
}

TEST(Allocation, FindsPmixAmongTheTypesOfSrun) {
    EXPECT_TRUE(
        offers_pmix("MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\nspecific pmix plugin versions "
                    "available: pmix_v4\n"));
    EXPECT_TRUE(offers_pmix("srun: MPI types are...\nsrun: pmix_v3\nsrun: none\n"));
    EXPECT_FALSE(offers_pmix("MPI plugin types are...\n\tcray_shasta\n\tnone\n\tpmi2\n"));
    EXPECT_FALSE(offers_pmix("/opt/openpmix/bin/srun: not found"));
    EXPECT_FALSE(offers_pmix(""));
}

}  // namespace
}  // namespace escalier::launch
