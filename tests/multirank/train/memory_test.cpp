// What the arenas hold, on two pipeline ranks: activations must not grow with the number of micro-batches
// under 1F1B, and recompute must save what it promises.
#include <gtest/gtest.h>

#include <string>

#include "config/validate.h"
#include "plan/stage_memory.h"
#include "tests/harness/multirank_main.h"
#include "train/assembly.h"

namespace escalier::train {
namespace {

// Bytes of this rank.
struct Memory {
    std::size_t activations = 0;    // slots of micro-batches
    std::size_t communication = 0;  // boundary buffers
    std::size_t scratch = 0;        // workspace
    std::size_t parameters = 0;
};

Memory memory(const std::string& schedule, int micro_batches, const std::string& recompute) {
    const std::string text =
        "version: 1\nrun: {device: cpu}\nmodel: {arch: gpt2, num_layers: 8, hidden_size: 64, num_heads: 4, "
        "vocab_size: 128}\n"
        "parallel: {pp: 2}\npipeline: {schedule: " +
        schedule +
        ", layout: [4, 4]}\n"
        "train: {seq_len: 128, micro_batch: 1, global_batch: " +
        std::to_string(micro_batches) + ", steps: 1, recompute: " + recompute + "}\n";
    const config::JobSpec spec = config::load_resolved({"test", text}, {}, 2).spec;
    const Assembly assembly(spec, test::env(), test::env().world(), {.threads = 1, .validation = false});
    const device::Arenas& arenas = assembly.arenas();
    return {arenas.activations.used(), arenas.communication.used(), arenas.workspace.used(),
            arenas.parameters.used()};
}

TEST(Memory, OneFOneBDoesNotGrowWithMicroBatchesAndGpipeDoes) {
    const Memory few = memory("1f1b", 4, "none"), many = memory("1f1b", 64, "none");
    EXPECT_EQ(few.activations, many.activations);
    EXPECT_EQ(few.communication, many.communication);
    const double gpipe = static_cast<double>(memory("gpipe", 64, "none").activations) /
                         static_cast<double>(memory("gpipe", 4, "none").activations);
    EXPECT_GT(gpipe, 12);  // 16 but for what all micro-batches share
    EXPECT_LE(gpipe, 16);
}

TEST(Memory, EarlierStagesKeepMoreMicroBatchesUnder1f1b) {
    double mine = static_cast<double>(memory("1f1b", 8, "none").activations), all[2];
    test::env().world().all_gather(TensorView(all, DType::f64, {2}), TensorView(&mine, DType::f64, {1}),
                                   "test");
    EXPECT_GT(all[0], 1.5 * all[1]);
    EXPECT_LT(all[0], 2.0 * all[1]);
}

TEST(Memory, RecomputeSavesAtLeastHalfOfTheActivations) {
    for (const char* schedule : {"1f1b", "gpipe"}) {
        const Memory none = memory(schedule, 8, "none"), full = memory(schedule, 8, "full");
        const Memory attention = memory(schedule, 8, "attention"), every2 = memory(schedule, 8, "{every: 2}");
        EXPECT_GE(none.activations + none.scratch, 2 * (full.activations + full.scratch)) << schedule;
        EXPECT_LT(attention.activations, none.activations) << schedule;
        EXPECT_LT(every2.activations, full.activations) << schedule;
        EXPECT_GT(every2.scratch, full.scratch) << schedule;
        EXPECT_EQ(none.parameters, full.parameters);
    }
}

// What `auto` plans with is what the arenas take: within a twentieth, for norms' statistics and the like.
TEST(Memory, PredictedActivationBytesAreThoseOfTheArenas) {
    for (const char* model : {"arch: gpt2, hidden_size: 64, num_heads: 4, vocab_size: 128",
                              "arch: llama, hidden_size: 64, num_heads: 4, num_kv_heads: 2, ffn_size: 160, "
                              "vocab_size: 128, qk_norm: true"})
        for (const char* recompute : {"none", "attention", "full"}) {
            const std::string text =
                std::string("version: 1\nrun: {device: cpu}\nmodel: {num_layers: 8, ") + model +
                "}\nparallel: {pp: 2}\npipeline: {schedule: zb-h1, layout: [4, 4]}\ntrain: {seq_len: 128, "
                "global_batch: 4, steps: 1, recompute: " +
                recompute + "}\n";
            const config::JobSpec spec = config::load_resolved({"test", text}, {}, 2).spec;
            const Assembly assembly(spec, test::env(), test::env().world(),
                                    {.threads = 1, .validation = false});
            const int rank = assembly.groups().place.pp_rank;
            const schedule::ActivationBytes bytes = plan::activation_bytes(spec);
            const schedule::StageBuffers& slots =
                assembly.programs()[static_cast<std::size_t>(rank)].chunks[0];
            const auto stage = static_cast<std::size_t>(rank);
            const double predicted = slots.forward_slots * bytes.forward[stage] +
                                     slots.linear_input_slots * bytes.linear_inputs[stage] +
                                     slots.output_gradient_slots * bytes.output_gradients[stage];
            const auto used = static_cast<double>(assembly.arenas().activations.used());
            EXPECT_NEAR(predicted / used, 1, 0.05) << model << " recompute " << recompute << " rank " << rank;
        }
}

}  // namespace
}  // namespace escalier::train
