#include "plan/op_work.h"

#include <gtest/gtest.h>

#include "config/model_facts.h"
#include "plan/part_times.h"

namespace escalier::plan {
namespace {

config::ModelConfig small_llama() {
    config::ModelConfig m;
    m.arch = config::Arch::llama;
    m.num_layers = 3;
    m.hidden_size = 8;
    m.num_heads = 4;
    m.num_kv_heads = 2;
    m.head_dim = 2;
    m.ffn_size = 12;
    m.vocab_size = 100;
    m.tie_embeddings = false;
    return m;
}

double flops(const Ops& ops) {
    double sum = 0;
    for (const Op& op : ops) sum += op.flops;
    return sum;
}

double bytes(const Ops& ops) {
    double sum = 0;
    for (const Op& op : ops) sum += op.bytes;
    return sum;
}

TEST(OpWork, CountsOfALayerByHand) {
    // B 2, T 5: R 10. C 8, attention 8, keys 4, qkv 16, gate and up 24, F 12.
    const WorkShape s = work_shape(small_llama(), 2, 5, 1, "fp32");
    EXPECT_DOUBLE_EQ(s.rows, 10);
    EXPECT_DOUBLE_EQ(s.qkv(), 16);
    EXPECT_DOUBLE_EQ(s.up(), 24);
    const double matrices = 2 * 10 * (16 * 8 + 8 * 8 + 24 * 8 + 12 * 8);
    const double attention = 2 * 10 * 5 * 8;  // two products over half of T x T
    EXPECT_DOUBLE_EQ(flops(layer_forward(s)), matrices + attention);
    EXPECT_DOUBLE_EQ(flops(layer_input_gradient(s)), matrices + 2.5 * attention);
    EXPECT_DOUBLE_EQ(flops(layer_weight_gradient(s)), matrices);
    EXPECT_DOUBLE_EQ(flops(head(s)), 3 * 2 * 10 * 128 * 8);
    EXPECT_DOUBLE_EQ(flops(embedding_forward(s)), 0);
    EXPECT_DOUBLE_EQ(bytes(embedding_forward(s)), 4 * 2 * 10 * 8);
    // Weight gradients: inputs and output gradients once, main gradients read and written.
    const double widths = (8 + 12) + (24 + 8) + (8 + 8) + (16 + 8);
    const double elements = 8 * 12 + 24 * 8 + 8 * 8 + 16 * 8;
    EXPECT_DOUBLE_EQ(bytes(layer_weight_gradient(s)), 4 * 10 * widths + 8 * elements);
}

TEST(OpWork, TensorRanksShareTheProducts) {
    const WorkShape one = work_shape(small_llama(), 2, 5, 1, "bf16"),
                    two = work_shape(small_llama(), 2, 5, 2, "bf16");
    EXPECT_DOUBLE_EQ(flops(layer_forward(two)), flops(layer_forward(one)) / 2);
    EXPECT_DOUBLE_EQ(flops(layer_weight_gradient(two)), flops(layer_weight_gradient(one)) / 2);
    // Key and value heads are repeated where there are more ranks than heads.
    EXPECT_DOUBLE_EQ(work_shape(small_llama(), 2, 5, 4, "bf16").keys, 2);
}

TEST(OpWork, FlopsAreThoseOfTheModel) {
    const config::ModelConfig m = small_llama();
    const WorkShape s = work_shape(m, 2, 5, 1, "fp32");
    // The convention counts the backward pass of attention as twice its forward, and the padding not at all.
    const double attention = 2 * 10 * 5 * 8, padding = 3 * 2 * 10.0 * 28 * 8;
    const double counted = 3 * (flops(layer_forward(s)) + flops(layer_input_gradient(s)) +
                                flops(layer_weight_gradient(s)) - 0.5 * attention) +
                           flops(head(s)) - padding;
    EXPECT_NEAR(counted, 10 * config::flops_per_token(m, 5), 1e-6);
}

TEST(OpWork, SecondsAreTheLongerOfFlopsAndBytes) {
    Hardware hardware = built_in_hardware("h100");
    hardware.efficiency = {0.5, 0.25, 0.5, 1};
    hardware.peak = {1, 2};  // 1e12 and 2e12 FLOP/s
    hardware.memory.gb_per_s = 1000;
    const Ops ops = {{OpKind::matmul, 4e12, 1e9},
                     {OpKind::attention, 1e12, 1e9},
                     {OpKind::sweep, 0, 1e12},
                     {OpKind::matmul, 1e6, 5e12}};
    EXPECT_DOUBLE_EQ(seconds(ops, hardware, "bf16"), 4 + 2 + 2 + 10);
    EXPECT_DOUBLE_EQ(seconds(ops, hardware, "fp32"), 8 + 4 + 2 + 10);
}

TEST(OpWork, RingSumsAndMessages) {
    const Hardware::Link link = {10, 5};  // 1e10 bytes/s, 5 us
    EXPECT_DOUBLE_EQ(all_reduce_seconds(8e9, 1, link, 0.5), 0);
    EXPECT_DOUBLE_EQ(all_reduce_seconds(8e9, 4, link, 0.5), 2 * 0.75 * 8e9 / 5e9 + 6 * 5e-6);
    EXPECT_DOUBLE_EQ(message_seconds(1e9, link, 0.5), 0.2 + 5e-6);
}

TEST(PartTimes, MoreOfAnythingIsNeverSlower) {
    const Hardware base = built_in_hardware("h100");
    const auto whole = [](const Hardware& hardware) {
        const config::ModelTimes t =
            roofline_times(config::resolved_model(small_llama(), 64), 2, 64, "bf16", {2, 2, 2}, hardware);
        return std::vector<double>{t.layer.forward, t.layer.backward, t.head.forward, t.embedding.forward,
                                   t.message,       t.reduction,      t.optimizer,    t.attention_again};
    };
    const std::vector<double> before = whole(base);
    for (int change = 0; change < 7; ++change) {
        Hardware better = base;
        double& value = change == 0   ? better.peak.bf16
                        : change == 1 ? better.memory.gb_per_s
                        : change == 2 ? better.inside.gb_per_s
                        : change == 3 ? better.between.gb_per_s
                        : change == 4 ? better.efficiency.matmul
                        : change == 5 ? better.efficiency.attention
                                      : better.efficiency.link;
        value *= 1.2;
        const std::vector<double> after = whole(better);
        double gain = 0;
        for (std::size_t i = 0; i < before.size(); ++i) {
            EXPECT_LE(after[i], before[i]) << change << " " << i;
            gain += before[i] - after[i];
        }
        if (change != 0 && change != 3 && change != 4 && change != 5) EXPECT_GT(gain, 0) << change;
    }
}

TEST(PartTimes, LinksFollowThePlacementOfRanks) {
    const Hardware h = built_in_hardware("h100");
    EXPECT_EQ(&tensor_link(h, {8, 16, 4}), &h.inside);
    EXPECT_EQ(&tensor_link(h, {16, 8, 4}), &h.between);
    EXPECT_EQ(&data_link(h, {2, 16, 4}), &h.inside);
    EXPECT_EQ(&data_link(h, {8, 1, 2}), &h.between);
    EXPECT_EQ(&pipeline_link(h, {2, 2, 2}), &h.inside);
    EXPECT_EQ(&pipeline_link(h, {8, 2, 1}), &h.between);
}

}  // namespace
}  // namespace escalier::plan
