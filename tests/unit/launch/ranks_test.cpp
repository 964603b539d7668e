#include "launch/ranks.h"

#include <gtest/gtest.h>

namespace escalier::launch {
namespace {

config::JobSpec grid(std::int64_t tp, std::int64_t pp, std::int64_t dp) {
    config::JobSpec job;
    job.parallel = {tp, pp, dp};
    return job;
}

TEST(Ranks, AreTheGridOfTheJob) {
    const Ranks ranks = choose_ranks(grid(2, 3, 4), std::nullopt, {1, "1 core of this machine"});
    EXPECT_EQ(ranks.count, 24);
    EXPECT_EQ(ranks.note, "");
    EXPECT_EQ(choose_ranks(grid(2, 3, 4), 5, {1, "1 core"}).count, 5);  // the rules say what is wrong with it
    EXPECT_EQ(choose_ranks(grid(2, 3, 0), 12, {1, "1 core"}).count, 12);
}

TEST(Ranks, FillTheRoomWhereDpIsOpenAndSaySo) {
    const Ranks ranks = choose_ranks(grid(2, 2, 0), std::nullopt, {18, "18 cores of this machine"});
    EXPECT_EQ(ranks.count, 16);
    EXPECT_EQ(
        ranks.note,
        "parallel.dp auto: 18 cores of this machine / (tp 2 x pp 2) gives dp 4, so 16 ranks (-n sets another "
        "number)");
    const Ranks tight = choose_ranks(grid(2, 2, 0), std::nullopt, {2, "2 cores of this machine"});
    EXPECT_EQ(tight.count, 4);
    EXPECT_NE(tight.note.find("gives dp 1, the least there is, so 4 ranks"), std::string::npos) << tight.note;
}

TEST(Ranks, AreFewerWhereTheBatchDoesNotDivide) {
    config::JobSpec job = grid(1, 2, 0);
    job.train.micro_batch = 2;
    job.train.global_batch = 12;
    const Ranks ranks = choose_ranks(job, std::nullopt, {8, "8 cores of this machine"});
    EXPECT_EQ(ranks.count, 6);
    EXPECT_NE(ranks.note.find(
                  "gives dp 4; train.global_batch 12 in micro-batches of 2 divides by dp 3, so 6 ranks"),
              std::string::npos)
        << ranks.note;
    job.train.global_batch = 0;  // follows dp
    EXPECT_EQ(choose_ranks(job, std::nullopt, {8, "8 cores"}).count, 8);
    job.train.global_batch = 7;  // divides by none: the rules say so
    EXPECT_EQ(choose_ranks(job, std::nullopt, {8, "8 cores"}).count, 2);
}

TEST(Ranks, HaveGpusOrCores) {
    const Machine machine = {16, 4, false};
    config::RunConfig run;
    EXPECT_EQ(room_for_ranks(run, machine, {}, {}).text, "4 GPUs of this machine");
    run.device = "cpu";
    EXPECT_EQ(room_for_ranks(run, machine, {}, {}).text, "16 cores of this machine");
    run.device = "auto";
    EXPECT_EQ(room_for_ranks(run, {1, 0, false}, {}, {}).text, "1 core of this machine");
    EXPECT_EQ(room_for_ranks(run, machine, {{"a", 3}, {"b", 3}}, {}).text, "6 slots of 2 hosts");
    EXPECT_EQ(room_for_ranks(run, machine, {{"a", 3}, {"b", 3}}, {}).places, 6);
}

TEST(Ranks, HaveWhatSlurmGave) {
    const Machine machine = {16, 4, false};
    config::RunConfig run;
    Allocation allocation;
    allocation.nodes = 2;
    allocation.cpus = 32;
    EXPECT_EQ(room_for_ranks(run, machine, {}, allocation).text, "32 CPUs of the Slurm allocation");
    allocation.cpus_per_task = 12;
    EXPECT_EQ(room_for_ranks(run, machine, {}, allocation).text,
              "2 tasks of 12 CPUs each of the Slurm allocation");
    EXPECT_EQ(room_for_ranks(run, machine, {}, allocation).places, 2);
    allocation.cpus_per_task = 64;
    EXPECT_EQ(room_for_ranks(run, machine, {}, allocation).places, 1);
    allocation.tasks = 8;
    EXPECT_EQ(room_for_ranks(run, machine, {}, allocation).text, "8 tasks of the Slurm allocation");
    allocation.gpus_per_node = 2;
    EXPECT_EQ(room_for_ranks(run, machine, {}, allocation).text, "4 GPUs of the Slurm allocation");
    run.device = "cpu";
    EXPECT_EQ(room_for_ranks(run, machine, {}, allocation).places, 8);
}

}  // namespace
}  // namespace escalier::launch
