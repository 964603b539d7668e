#include "launch/batch_file.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace escalier::launch {
namespace {

BatchPlan two_nodes() {
    BatchPlan plan;
    plan.name = "small";
    plan.nodes = 2;
    plan.tasks = 16;
    plan.cpus_per_task = 12;
    plan.gpus_per_node = 8;
    plan.time = "24:00:00";
    plan.partition = "gpu";
    plan.account = "lab";
    plan.directives = {"--exclusive"};
    plan.written_by = "escalier launch job.yaml --slurm F";
    plan.points = {{16, {"bin/escalier", "train", "job.yaml", "--resume", "auto"}}};
    return plan;
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST(BatchFile, SaysWhatSlurmMustKnow) {
    const std::string text = batch_file(two_nodes());
    EXPECT_TRUE(text.starts_with("#!/bin/bash\n#SBATCH --job-name=small\n")) << text;
    for (const char* line :
         {"--nodes=2", "--ntasks=16", "--ntasks-per-node=8", "--cpus-per-task=12", "--gpus-per-node=8",
          "--time=24:00:00", "--partition=gpu", "--account=lab", "--signal=USR1@300", "--requeue",
          "--open-mode=append", "--output=%x-%j.out", "--exclusive"})
        EXPECT_TRUE(has(text, std::string("\n#SBATCH ") + line + "\n")) << line << "\n" << text;
    EXPECT_TRUE(has(
        text,
        "\nsrun --mpi=pmix --ntasks=16 --cpus-per-task=12 --distribution=block:block --kill-on-bad-exit=1 "
        "--gpu-bind=none bin/escalier train job.yaml --resume auto\ncode=$?\n"
        "if [ \"$code\" -eq 75 ]; then\n    scontrol requeue \"$SLURM_JOB_ID\"\nfi\nexit \"$code\"\n"))
        << text;
    EXPECT_FALSE(has(text, "--array"));
}

TEST(BatchFile, LeavesOutWhatIsNotAsked) {
    BatchPlan plan;
    plan.name = "one";
    plan.points = {{1, {"escalier", "train", "job.yaml"}}};
    const std::string text = batch_file(plan);
    for (const char* option : {"--cpus-per-task", "--gpus", "--time", "--partition", "--account", "--array"})
        EXPECT_FALSE(has(text, option)) << option << "\n" << text;
}

TEST(BatchFile, HandsTheSignalOnToMpirun) {
    BatchPlan plan = two_nodes();
    plan.starter = Starter::mpirun;
    const std::string text = batch_file(plan);
    EXPECT_TRUE(has(text, "\n#SBATCH --signal=B:USR1@300\n")) << text;
    EXPECT_TRUE(
        has(text,
            "\nmpirun -n 16 --map-by slot --bind-to none --mca mpi_yield_when_idle 1 bin/escalier train "
            "job.yaml --resume auto &\npid=$!\n"))
        << text;
    EXPECT_FALSE(has(text, "srun"));
}

TEST(BatchFile, IsAnArrayOfPoints) {
    BatchPlan plan = two_nodes();
    plan.most_at_once = 2;
    plan.points.push_back({8, {"bin/escalier", "train", "job.yaml", "--set", "run.name=a b"}});
    const std::string text = batch_file(plan);
    EXPECT_TRUE(has(text, "\n#SBATCH --array=0-1%2\n")) << text;
    EXPECT_TRUE(has(text, "\n#SBATCH --output=%x-%A_%a.out\n")) << text;
    EXPECT_TRUE(has(text, "\n0) command=(srun --mpi=pmix --ntasks=16 ")) << text;
    EXPECT_TRUE(has(text, "\n1) command=(srun --mpi=pmix --ntasks=8 ")) << text;
    EXPECT_TRUE(has(text, "--set 'run.name=a b') ;;\n")) << text;
    EXPECT_TRUE(has(text, "scontrol requeue \"${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\"")) << text;
}

TEST(BatchFile, IsAnArrayOfElementsThatStartTheirRanksThemselves) {
    BatchPlan plan = two_nodes();
    plan.points.clear();
    plan.elements = 3;
    plan.element = {"bin/escalier", "sweep", "run", "a job.yaml"};
    const std::string text = batch_file(plan);
    EXPECT_TRUE(has(text, "\n#SBATCH --array=0-2\n")) << text;
    EXPECT_TRUE(has(text, "\n#SBATCH --signal=B:USR1@300\n")) << text;
    EXPECT_TRUE(
        has(text, "\nbin/escalier sweep run 'a job.yaml' --index \"$SLURM_ARRAY_TASK_ID\" &\npid=$!\n"))
        << text;
    EXPECT_TRUE(has(text, "scontrol requeue \"${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\"")) << text;
    EXPECT_FALSE(has(text, "srun --mpi"));
}

TEST(BatchFile, KnowsSlurmsTimes) {
    for (const char* time : {"30", "30:00", "24:00:00", "2-12", "2-12:30", "2-12:30:00"})
        EXPECT_NO_THROW(check_time_limit(time)) << time;
    for (const char* time : {"", "1h", "24:00:00:00", "-5", "2-", "12 ", "30\n#SBATCH --x", "1.5"})
        EXPECT_THROW(check_time_limit(time), ConfigError) << time;
}

}  // namespace
}  // namespace escalier::launch
