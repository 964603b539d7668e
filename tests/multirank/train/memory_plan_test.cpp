// What a plan says without MPI is what the ranks take: every arena to the byte, on many grids, schedules,
// layouts, recompute settings, optimizers and ways to save.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "comm/mpi_communicator.h"
#include "comm/planned_communicator.h"
#include "config/validate.h"
#include "tests/harness/multirank_main.h"
#include "train/assembly.h"
#include "train/memory_plan.h"
#include "train/schedule_rules.h"

namespace escalier::train {
namespace {

const char* const gpt2 =
    "{arch: gpt2, num_layers: 8, hidden_size: 48, num_heads: 4, vocab_size: 130, dropout: 0.1, "
    "tie_embeddings: ";
const char* const llama =
    "{arch: llama, num_layers: 8, hidden_size: 48, num_heads: 4, ffn_size: 88, vocab_size: 130, qk_norm: "
    "true, "
    "qkv_bias: true, num_kv_heads: ";

struct Setting {
    std::string model, grid, pipeline, recompute, more;
};

config::JobSpec spec_of(const Setting& setting) {
    const std::string text =
        "version: 1\nrun: {device: cpu}\nmodel: " + setting.model + "}\nparallel: " + setting.grid +
        "\npipeline: " + setting.pipeline +
        "\ntrain: {seq_len: 16, micro_batch: 2, global_batch: 32, steps: 1, recompute: " + setting.recompute +
        "}\n" + setting.more;
    return config::load_resolved({"test", text}, {}, 4, config::process_environment(), schedule_rules()).spec;
}

std::vector<Setting> settings() {
    const std::vector<std::string> models = {gpt2 + std::string("true"), gpt2 + std::string("false"),
                                             llama + std::string("1"), llama + std::string("2"),
                                             llama + std::string("4")};
    const std::vector<std::string> grids = {"{tp: 1, pp: 4, dp: 1}", "{tp: 2, pp: 2, dp: 1}",
                                            "{tp: 1, pp: 2, dp: 2}", "{tp: 4, pp: 1, dp: 1}",
                                            "{tp: 2, pp: 1, dp: 2}", "{tp: 1, pp: 1, dp: 4}"};
    const std::vector<std::string> schedules = {"1f1b",     "gpipe", "interleaved", "bfs",   "zb-h1",
                                                "zb-h2",    "zbv",   "v-half",      "v-min", "interleaved-zb",
                                                "dualpipe", "auto",  "dualpipev"};
    const std::vector<std::string> recomputes = {"none", "attention", "full", "{every: 2}"};
    const std::vector<std::string> more = {"checkpoint: {every: 2}\n",
                                           "optimizer: {name: sgd}\ncheckpoint: {every: 2, async: false}\n",
                                           "eval: {every: 1, batches: 1}\ncheckpoint: {every: 0}\n"};
    std::vector<Setting> all;
    // Every pair of grid and schedule; the rest goes round.
    for (std::size_t g = 0; g < grids.size(); ++g)
        for (std::size_t s = 0; s < schedules.size(); ++s) {
            const std::size_t turn = g * schedules.size() + s;
            const bool one_stage = g >= 3;
            if (one_stage && s >= 3) continue;
            all.push_back(
                {models[turn % models.size()], grids[g],
                 "{schedule: " + (one_stage ? std::string("1f1b") : schedules[s]) + ", layout: even}",
                 recomputes[turn % recomputes.size()], more[turn % more.size()]});
        }
    all.push_back({models[0], grids[0], "{schedule: 1f1b, layout: [1, 3, 3, 1]}",
                   "[full, none, attention, none]", more[0]});
    all.push_back(
        {models[2], grids[1], "{schedule: zbv, layout: [1, 3, 2, 2]}", "[full, none, none, full]", more[2]});
    all.push_back({models[3], grids[1], "{schedule: interleaved, layout: [1, 3, 3, 1]}", "none", more[0]});
    return all;
}

std::string text_of(const Setting& setting) {
    return setting.model + " " + setting.grid + " " + setting.pipeline + " " + setting.recompute + " " +
           setting.more;
}

TEST(MemoryPlan, IsWhatEveryRankTakesToTheByte) {
    comm::Communicator& world = test::env().world();
    for (const Setting& setting : settings()) {
        const config::JobSpec spec = spec_of(setting);
        const bool validation = plans_validation(spec);
        const Assembly assembly(spec, test::env(), world, {.threads = 2, .validation = validation});
        const PlannedJob planned(spec, {.device = "cpu", .ranks_per_node = 4, .threads = 2});
        const std::vector<device::ArenaSize> taken = assembly.arenas().sizes();
        const std::vector<device::ArenaSize> told = planned.memory_of(world.rank()).arenas;
        ASSERT_EQ(taken.size(), told.size());
        for (std::size_t i = 0; i < taken.size(); ++i)
            EXPECT_EQ(taken[i].bytes, told[i].bytes)
                << taken[i].name << " of rank " << world.rank() << ": " << text_of(setting);
    }
}

TEST(MemoryPlan, SumsByMessagesNeedScratchThatAPlanKnows) {
    const config::JobSpec spec =
        spec_of({llama + std::string("1"), "{tp: 1, pp: 1, dp: 4}", "{schedule: 1f1b}", "none", ""});
    const auto communication = [&](int ranks_per_node) {
        return PlannedJob(spec, {.device = "cpu", .ranks_per_node = ranks_per_node, .threads = 1})
            .memory_of(0)
            .arenas[5];
    };
    comm::CommOptions options;
    options.shared_memory = false;
    const auto messages = test::env().make_world(options);
    const std::int64_t one = messages->all_reduce_scratch_elements(1000);
    EXPECT_GT(one, 0);
    EXPECT_EQ(communication(4).name, "communication");
    EXPECT_GT(communication(2).bytes, communication(4).bytes);
    const auto planned = comm::planned_group(messages->rank(), 4, false);
    for (const std::int64_t elements : {1, 1000, 40000, 1000000, 10000000})
        EXPECT_EQ(planned->all_reduce_scratch_elements(elements),
                  messages->all_reduce_scratch_elements(elements));
}

}  // namespace
}  // namespace escalier::train
