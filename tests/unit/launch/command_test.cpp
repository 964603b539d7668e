#include "launch/command.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

namespace escalier::launch {
namespace {

const Words program = {"bin/escalier", "train", "job.yaml"};

MpirunPlan here(std::int64_t ranks, int cores, bool root = false) {
    MpirunPlan plan;
    plan.ranks = ranks;
    plan.machine = {cores, 0, root};
    return plan;
}

std::string text(const MpirunPlan& plan) {
    return shell_text(mpirun_command(plan, program));
}

TEST(Command, ReadsBackFromAShell) {
    EXPECT_EQ(shell_text({"a", "--set", "x=1", "/p/q.yaml"}), "a --set x=1 /p/q.yaml");
    EXPECT_EQ(shell_text({"two words", "", "$HOME", "it's", "a\nb", "{every: 2}", "~", "*"}),
              "'two words' '' '$HOME' 'it'\\''s' 'a\nb' '{every: 2}' '~' '*'");
}

TEST(Command, BindsRanksThatHaveSeveralCores) {
    EXPECT_EQ(text(here(4, 16)),
              "mpirun -n 4 --map-by slot:PE=4 --bind-to core --mca mpi_yield_when_idle 1 bin/escalier train "
              "job.yaml");
    EXPECT_EQ(text(here(5, 16)),
              "mpirun -n 5 --map-by slot:PE=3 --bind-to core --mca mpi_yield_when_idle 1 bin/escalier train "
              "job.yaml");
    EXPECT_EQ(
        text(here(2, 2)),
        "mpirun -n 2 --map-by slot --bind-to none --mca mpi_yield_when_idle 1 bin/escalier train job.yaml");
}

TEST(Command, AllowsMoreRanksThanCoresAndRootOnlyWhereNeeded) {
    EXPECT_EQ(
        text(here(3, 2)),
        "mpirun -n 3 --map-by slot --bind-to none --oversubscribe --mca mpi_yield_when_idle 1 bin/escalier "
        "train job.yaml");
    EXPECT_EQ(text(here(2, 2, true)),
              "mpirun -n 2 --map-by slot --bind-to none --mca mpi_yield_when_idle 1 --allow-run-as-root "
              "bin/escalier "
              "train job.yaml");
}

TEST(Command, NamesHosts) {
    MpirunPlan plan = here(8, 2);
    plan.hosts = {{"a", 4}, {"b", 4}};
    EXPECT_EQ(text(plan),
              "mpirun -n 8 --host a:4,b:4 --map-by slot --bind-to none --mca mpi_yield_when_idle 1 "
              "bin/escalier train "
              "job.yaml");
    plan.ranks = 9;
    plan.hostfile = "nodes.txt";
    plan.agent = "ssh -p 2222";
    plan.exported = {"NCCL_DEBUG"};
    plan.watch_hosts = true;
    EXPECT_EQ(
        text(plan),
        "mpirun -n 9 --hostfile nodes.txt --mca plm_rsh_agent 'ssh -p 2222' --mca oob_tcp_keepalive_time 10 "
        "--mca oob_tcp_keepalive_intvl 5 --mca oob_tcp_keepalive_probes 6 --map-by slot --bind-to none "
        "--oversubscribe --mca mpi_yield_when_idle 1 -x NCCL_DEBUG bin/escalier train job.yaml");
}

TEST(Command, TakesTheAllocationFromSlurm) {
    Allocation allocation;
    allocation.cpus = 8;
    MpirunPlan plan = here(8, 64);
    plan.allocation = allocation;
    EXPECT_EQ(
        text(plan),
        "mpirun -n 8 --map-by slot --bind-to none --mca mpi_yield_when_idle 1 bin/escalier train job.yaml");
    plan.allocation->tasks = 4;
    EXPECT_NE(text(plan).find("--oversubscribe"), std::string::npos);
    EXPECT_EQ(shell_text(srun_command(srun_plan(8, allocation), program)),
              "srun --mpi=pmix --ntasks=8 --distribution=block:block --kill-on-bad-exit=1 bin/escalier train "
              "job.yaml");
    EXPECT_NE(shell_text(srun_command(srun_plan(9, allocation), program)).find(" --overcommit "),
              std::string::npos);
    allocation.cpus_per_task = 2;
    allocation.gpus_per_node = 4;
    EXPECT_EQ(shell_text(srun_command(srun_plan(4, allocation), program)),
              "srun --mpi=pmix --ntasks=4 --cpus-per-task=2 --distribution=block:block --kill-on-bad-exit=1 "
              "--gpu-bind=none bin/escalier train job.yaml");
    EXPECT_NE(shell_text(srun_command(srun_plan(5, allocation), program)).find(" --overcommit "),
              std::string::npos);
}

TEST(Command, CarriesSettingsToOtherHosts) {
    EXPECT_EQ(variables_for_hosts({"NCCL_DEBUG=INFO", "HOME=/root", "OMP_NUM_THREADS=1", "OMPI_MCA_pml=ob1",
                                   "UCX_TLS=tcp", "ESCALIER_CUDA_LIBRARY=/x", "PATH=/bin",
                                   "CUDA_HOME=/usr/local/cuda", "CUDA_DEVICE_MAX_CONNECTIONS=1"}),
              (Words{"CUDA_DEVICE_MAX_CONNECTIONS", "ESCALIER_CUDA_LIBRARY", "NCCL_DEBUG", "OMP_NUM_THREADS",
                     "UCX_TLS"}));
}

// scripts/mpirun sets by environment what these flags say, all of it and no more.
TEST(Command, SaysWhatTheScriptSays) {
    std::set<std::string> wanted;
    for (const MpirunSetting* setting : {&as_root(), &oversubscribed(), &yielding(), &unbound()})
        wanted.insert(setting->variables.begin(), setting->variables.end());
    std::ifstream in(MPIRUN_SCRIPT);
    ASSERT_TRUE(in) << MPIRUN_SCRIPT;
    std::set<std::string> set;
    for (std::string line; std::getline(in, line);) {
        std::istringstream words(line);
        std::string word;
        if (!(words >> word) || word != "export") continue;
        while (words >> word) set.insert(word);
    }
    EXPECT_EQ(set, wanted);
}

}  // namespace
}  // namespace escalier::launch
