// plan --measure on two ranks: every part of the model has a time, all ranks have the same, and a profile of
// one grid predicts the steps of others. No time is compared with a clock: what is compared are counts of
// work.
#include <gtest/gtest.h>

#include <string>

#include "config/validate.h"
#include "core/error.h"
#include "tests/harness/multirank_main.h"
#include "train/measure_profile.h"
#include "train/schedule_rules.h"

namespace escalier::train {
namespace {

config::JobSpec job(const std::string& grid, const std::string& model) {
    const std::string text =
        "version: 1\nrun: {device: cpu}\nmodel: {num_layers: 4, " + model + "}\nparallel: {" + grid +
        "}\ntrain: {seq_len: 32, micro_batch: 2, global_batch: 8, steps: 1, dtype: fp32}\n";
    return config::load_resolved({"test", text}, {}, 2, config::process_environment(), schedule_rules()).spec;
}

constexpr const char* gpt2 = "arch: gpt2, hidden_size: 64, num_heads: 4, vocab_size: 128";
constexpr const char* llama =
    "arch: llama, hidden_size: 64, num_heads: 4, num_kv_heads: 2, ffn_size: 160, vocab_size: 128, "
    "tie_embeddings: "
    "false";

config::Profile measure(const config::JobSpec& spec) {
    return measure_profile(spec, test::env(), {.threads = 1, .repeats = 3});
}

TEST(Measure, EveryPartHasATime) {
    for (const char* model : {gpt2, llama}) {
        const config::JobSpec spec = job("pp: 2", model);
        const config::Profile p = measure(spec);
        const config::ModelTimes& t = p.times;
        for (const double seconds :
             {t.layer.forward, t.layer.backward, t.layer.input_gradient, t.layer.weight_gradient,
              t.embedding.forward, t.embedding.backward, t.embedding.input_gradient, t.head.forward,
              t.attention_again, t.layer_again, t.message, t.reduction, t.remote_tie, t.local_tie,
              t.optimizer, t.norm, t.data, t.step})
            EXPECT_GT(seconds, 0) << model;
        for (const double seconds : {t.layer.forward_exchange, t.layer.backward_exchange, t.head.backward,
                                     t.head.weight_gradient, t.embedding.weight_gradient})
            EXPECT_EQ(seconds, 0) << model;
        EXPECT_LT(t.attention_again, t.layer_again);
        EXPECT_EQ(p.machine.ranks, 2);
        EXPECT_EQ(p.machine.threads, 1);
        EXPECT_EQ(p.sizes.micro_batch, 2);
        EXPECT_EQ(p.model.num_layers, 4);
        EXPECT_NO_THROW(config::require_same_work(p, spec, "p.yaml"));
        EXPECT_EQ(config::parse_profile({"p.yaml", config::dump(p)}).times, t);
    }
}

TEST(Measure, TensorRanksExchange) {
    const config::Profile p = measure(job("tp: 2", llama));
    for (const config::PartTimes* part : {&p.times.layer, &p.times.embedding, &p.times.head}) {
        EXPECT_GT(part->forward_exchange, 0);
        EXPECT_LT(part->forward_exchange, part->forward);
    }
    EXPECT_GT(p.times.layer.backward_exchange, 0);
    EXPECT_LT(p.times.layer.backward_exchange, p.times.layer.backward);
    EXPECT_GT(p.times.layer_again_exchange, 0);
    EXPECT_EQ(p.times.message, 0);  // one tensor group: nobody to send to
    EXPECT_EQ(p.sizes.tp, 2);
}

TEST(Measure, AllRanksHaveTheSame) {
    const config::Profile p = measure(job("pp: 2", gpt2));
    double mine = p.times.layer.forward, sum = mine;
    test::env().world().all_reduce_sum(TensorView(&sum, DType::f64, {1}), "test");
    EXPECT_EQ(sum, 2 * mine);
}

TEST(Measure, NeedsWholeTensorGroups) {
    const std::string text = std::string("model: {num_layers: 4, ") + gpt2 + "}\nparallel: {tp: 4}\n";
    const config::JobSpec spec =
        config::load_resolved({"test", text}, {}, 4, config::process_environment(), schedule_rules()).spec;
    try {
        measure(spec);
        FAIL();
    } catch (const Error& error) {
        EXPECT_NE(
            std::string(error.what()).find("parallel.tp is 4, found 2 processes; start it with mpirun -n 4"),
            std::string::npos)
            << error.what();
    }
}

}  // namespace
}  // namespace escalier::train
