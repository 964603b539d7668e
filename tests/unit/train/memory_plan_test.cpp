// Plans of memory for machines that are not there, and the quick sums over what was measured once, held
// against them.
#include "train/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "config/validate.h"
#include "train/largest_micro_batch.h"
#include "train/memory_oracle.h"
#include "train/schedule_rules.h"

namespace escalier::train {
namespace {

config::JobSpec spec_of(const std::string& text, int ranks) {
    return config::load_resolved({"test", "version: 1\n" + text}, {}, ranks, config::process_environment(),
                                 schedule_rules())
        .spec;
}

const char* const tiny =
    "model: {arch: llama, num_layers: 8, hidden_size: 64, num_heads: 4, num_kv_heads: 2, ffn_size: 160, "
    "vocab_size: "
    "300}\n";

std::size_t bytes_of(const RankMemory& memory, const std::string& arena) {
    for (const device::ArenaSize& size : memory.arenas)
        if (size.name == arena) return size.bytes;
    ADD_FAILURE() << "no arena " << arena;
    return 0;
}

TEST(MemoryPlan, AGpuComputesInBf16WithItsOwnCopiesAndScratch) {
    const std::string job = std::string(tiny) + "train: {seq_len: 64, micro_batch: 2, global_batch: 8}\n";
    const config::JobSpec spec = spec_of(job, 1);
    const RankMemory cpu = PlannedJob(spec, {.device = "cpu"}).memory_of(0);
    const RankMemory gpu = PlannedJob(spec, {.device = "cuda"}).memory_of(0);
    EXPECT_EQ(bytes_of(cpu, "parameters"), bytes_of(gpu, "parameters"));
    EXPECT_EQ(bytes_of(cpu, "prepared weights"), 0U);
    // Every matrix but the embedding's table once more, in two bytes; the head is tied to it and read in
    // bf16.
    EXPECT_GT(bytes_of(gpu, "prepared weights"), bytes_of(gpu, "parameters") * 2 / 5);
    EXPECT_LT(bytes_of(gpu, "activations"), bytes_of(cpu, "activations") * 3 / 5);
    EXPECT_GT(gpu.device_bytes(), gpu.in_arenas(false));
    EXPECT_EQ(cpu.total(), cpu.host_bytes());
    EXPECT_EQ(gpu.total(), gpu.device_bytes());
}

TEST(MemoryPlan, SumsByNcclTakeScratchAndStagedOnesDoNot) {
    const std::string job =
        std::string(tiny) + "parallel: {dp: 4}\ntrain: {seq_len: 64, global_batch: 8}\nrun: {device: cuda";
    const auto communication = [&](const std::string& more) {
        return bytes_of(PlannedJob(spec_of(job + more + "}\n", 4), {.ranks_per_node = 4}).memory_of(0),
                        "communication");
    };
    EXPECT_GT(communication(""), communication(", comm: staged"));
    EXPECT_EQ(communication(", deterministic: false"), communication(", comm: staged"));
}

TEST(MemoryPlan, TheFullestRankOfAPipelineRankIsTheOneThatTakesMost) {
    const config::JobSpec spec = spec_of(std::string(tiny) +
                                             "parallel: {tp: 2, pp: 2, dp: 3}\ntrain: {seq_len: 32, "
                                             "global_batch: 12}\ncheckpoint: {every: 1}\n",
                                         12);
    const PlannedJob job(spec, {.ranks_per_node = 12});
    const std::vector<RankMemory> all = job.all_ranks(), fullest = job.fullest_ranks();
    ASSERT_EQ(fullest.size(), 2U);
    for (int pp_rank = 0; pp_rank < 2; ++pp_rank) {
        std::int64_t most = 0;
        for (const RankMemory& rank : all)
            if (rank.place.pp_rank == pp_rank) most = std::max(most, rank.arena_bytes());
        EXPECT_EQ(fullest[static_cast<std::size_t>(pp_rank)].arena_bytes(), most);
    }
}

TEST(MemoryPlan, TheLargestMicroBatchIsTheLastThatFits) {
    const config::JobSpec spec = spec_of(std::string(tiny) + "train: {seq_len: 64, global_batch: 12}\n", 1);
    const auto total = [&](std::int64_t micro_batch) {
        config::JobSpec other = spec;
        other.train.micro_batch = micro_batch;
        return PlannedJob(config::resolve(other, 1, schedule_rules()), {}).memory_of(0).total();
    };
    EXPECT_EQ(largest_micro_batch(spec, {}, total(4)), 4);
    EXPECT_EQ(largest_micro_batch(spec, {}, total(6) - 1), 4);
    EXPECT_EQ(largest_micro_batch(spec, {}, total(12)), 12);
    EXPECT_EQ(largest_micro_batch(spec, {}, total(1) - 1), std::nullopt);
}

// ---- the oracle ----

double worst_error(MemoryOracle& oracle, const config::JobSpec& spec, const PlannedMachine& machine) {
    const PlannedJob job(spec, machine);
    const std::vector<RankMemory> exact = job.fullest_ranks();
    const std::vector<std::int64_t> quick = oracle.bytes(spec, job.programs().schedule);
    double worst = 0;
    for (std::size_t rank = 0; rank < exact.size(); ++rank) {
        const auto wanted = static_cast<double>(exact[rank].total());
        worst = std::max(worst, std::abs(static_cast<double>(quick[rank]) / wanted - 1));
    }
    return worst;
}

TEST(MemoryOracle, IsNearThePlanOnRandomJobs) {
    std::mt19937 random(7);
    const auto any = [&](const auto& of) { return of[random() % std::size(of)]; };
    const std::vector<std::string> schedules = {"1f1b", "gpipe",          "interleaved", "zb-h1",
                                                "zbv",  "interleaved-zb", "dualpipe"};
    const std::vector<std::string> recomputes = {"none", "attention", "full", "{every: 2}"};
    const int sizes[] = {1, 2, 4};
    for (const char* device : {"cpu", "cuda"})
        for (const bool saving : {false, true}) {
            const bool tied = saving;  // an oracle is of one model and one way to save
            const PlannedMachine machine{.device = device, .ranks_per_node = 8, .threads = 2};
            MemoryOracle oracle(machine);
            for (int turn = 0; turn < 30; ++turn) {
                const int tp = any(sizes), pp = any(sizes), dp = any(sizes);
                const std::string schedule = pp == 1 ? "1f1b" : any(schedules);
                const std::string text =
                    std::string(
                        "run: {threads: 2}\nmodel: {arch: llama, num_layers: 16, hidden_size: 512, "
                        "num_heads: 8, "
                        "num_kv_heads: 2, ffn_size: 1376, vocab_size: 8192, tie_embeddings: ") +
                    (tied ? "true" : "false") + "}\nparallel: {tp: " + std::to_string(tp) +
                    ", pp: " + std::to_string(pp) + ", dp: " + std::to_string(dp) +
                    "}\npipeline: {schedule: " + schedule +
                    ", layout: even}\ntrain: {seq_len: 256, micro_batch: " + std::to_string(any(sizes)) +
                    ", global_batch: " + std::to_string(64 * dp) + ", recompute: " + any(recomputes) +
                    "}\ncheckpoint: {every: " + std::to_string(saving) + "}\n";
                // In so small a model longer rings count, and the scratch of sums, which is taken at its
                // most.
                const double bound = dp == 1 ? 0.02 : 0.06;
                EXPECT_LT(worst_error(oracle, spec_of(text, tp * pp * dp), machine), bound) << device << "\n"
                                                                                            << text;
            }
        }
}

TEST(MemoryOracle, KnowsAModelOfAThousandGpus) {
    const PlannedMachine machine{.device = "cuda", .ranks_per_node = 8, .threads = 1};
    MemoryOracle oracle(machine);
    for (const int pp : {16, 32}) {
        const std::string text =
            "model: {preset: llama3.1-405b}\nparallel: {tp: 8, pp: " + std::to_string(pp) +
            ", dp: " + std::to_string(1024 / 8 / pp) +
            "}\npipeline: {schedule: 1f1b, layout: balanced}\ntrain: {seq_len: 8192, "
            "micro_batch: 1, global_batch: 512}\n";
        EXPECT_LT(worst_error(oracle, spec_of(text, 1024), machine), 0.01) << pp;
    }
}

}  // namespace
}  // namespace escalier::train
