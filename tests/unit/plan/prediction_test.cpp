#include "plan/prediction.h"

#include <gtest/gtest.h>

#include "plan/stage_times.h"
#include "schedule/generators.h"
#include "schedule/lower.h"

namespace escalier::plan {
namespace {

config::JobSpec job(int pp, int chunks, std::int64_t micro_batches, std::int64_t layers,
                    std::int64_t dp = 1) {
    config::JobSpec spec;
    config::ModelConfig& m = spec.model;
    m.arch = config::Arch::llama;
    m.num_layers = layers;
    m.hidden_size = 64;
    m.num_heads = m.num_kv_heads = 4;
    m.head_dim = 16;
    m.ffn_size = 128;
    m.vocab_size = 256;
    m.tie_embeddings = false;
    spec.parallel = {1, pp, dp};
    spec.train.seq_len = 32;
    spec.train.micro_batch = 2;
    spec.train.global_batch = 2 * micro_batches * dp;
    spec.train.dtype = "fp32";
    const std::int64_t stages = pp * chunks;
    spec.pipeline.layers_per_stage.assign(static_cast<std::size_t>(stages), layers / stages);
    spec.train.recompute.assign(static_cast<std::size_t>(stages), config::Recompute::none);
    return spec;
}

schedule::Schedule schedule_of(const char* kind, const config::JobSpec& spec, int chunks) {
    schedule::GenerateOptions options;
    options.kind = kind;
    options.pp = static_cast<int>(spec.parallel.pp);
    options.chunks = chunks;
    options.micro_batches = static_cast<int>(spec.micro_batches());
    return schedule::generate(options);
}

config::ModelTimes times() {
    config::ModelTimes t;
    t.layer = {1.0, 2.2, 1.0, 1.5, 0.25, 0.5};
    t.embedding = {0.5, 0.25, 0.25, 0, 0.125, 0};
    t.head = {3.0, 0, 0, 0, 0.5, 0};
    t.attention_again = 0.25;
    t.layer_again = 0.75;
    t.layer_again_exchange = 0.25;
    return t;
}

TEST(StageTimes, AreTheSumOfTheirParts) {
    config::JobSpec spec = job(3, 1, 4, 9);
    spec.pipeline.layers_per_stage = {2, 4, 3};
    spec.train.recompute = {config::Recompute::full, config::Recompute::none, config::Recompute::attention};
    const StageTimes split = stage_times(spec, times(), true), whole = stage_times(spec, times(), false);
    EXPECT_EQ(split.durations.forward, (std::vector<double>{2.5, 4, 6}));
    EXPECT_EQ(split.durations.input_gradient, (std::vector<double>{2 + 0.25 + 1.5, 4, 3 + 0.75}));
    EXPECT_EQ(split.durations.weight_gradient, (std::vector<double>{3, 6, 4.5}));
    EXPECT_EQ(split.forward_exchange, (std::vector<double>{0.625, 1, 1.25}));
    EXPECT_EQ(split.backward_exchange, (std::vector<double>{1 + 0.5, 2, 1.5}));
    // B in one action takes what it takes, not the sum of its halves.
    const double backward[] = {2 * 2.2 + 0.25 + 1.5, 4 * 2.2, 3 * 2.2 + 0.75};
    for (std::size_t stage = 0; stage < 3; ++stage) {
        EXPECT_NEAR(whole.durations.input_gradient[stage] + whole.durations.weight_gradient[stage],
                    backward[stage], 1e-12);
        EXPECT_NEAR(stage_seconds(times(), spec.pipeline.layers_per_stage[stage], stage == 0, stage == 2,
                                  spec.train.recompute[stage], false),
                    whole.durations.forward[stage] + backward[stage], 1e-12);
    }
}

TEST(StageTimes, AProfileOfOneWayOfBackwardServesBoth) {
    const config::JobSpec spec = job(3, 1, 4, 9);
    config::ModelTimes whole = times(), halves = times();
    whole.layer.input_gradient = whole.layer.weight_gradient = 0;
    halves.layer.backward = 0;
    for (const bool split : {true, false}) {
        const schedule::Durations w = stage_times(spec, whole, split).durations;
        EXPECT_NEAR(w.input_gradient[1] + w.weight_gradient[1], 3 * 2.2, 1e-12) << split;
        EXPECT_NEAR(stage_seconds(whole, 3, false, false, config::Recompute::none, split), 3 * (1 + 2.2),
                    1e-12);
        const schedule::Durations h = stage_times(spec, halves, split).durations;
        EXPECT_NEAR(h.input_gradient[1], 3 * 1.0, 1e-12) << split;
        EXPECT_NEAR(h.weight_gradient[1], 3 * 1.5, 1e-12) << split;
        EXPECT_NEAR(stage_seconds(halves, 3, false, false, config::Recompute::none, split), 3 * (1 + 2.5),
                    1e-12);
    }
}

TEST(StageTimes, ElementsAreThoseOfTheModel) {
    const config::ModelConfig m = job(1, 1, 1, 1).model;
    const PartElements one = part_elements(m, 1), two = part_elements(m, 2);
    EXPECT_DOUBLE_EQ(one.layer, 64 * (192 + 64 + 256 + 128) + 2 * 64);
    EXPECT_DOUBLE_EQ(two.layer, 64 * (192 + 64 + 256 + 128) / 2 + 2 * 64);
    EXPECT_DOUBLE_EQ(one.embedding, 256 * 64);
    EXPECT_DOUBLE_EQ(two.head, 128 * 64 + 64);
}

TEST(Prediction, PipelineIsTheSimulator) {
    for (const auto& [kind, chunks] :
         {std::pair{"1f1b", 1}, {"gpipe", 1}, {"zb-h1", 1}, {"interleaved", 2}, {"zbv", 2}}) {
        const config::JobSpec spec = job(4, chunks, 8, 16);
        const schedule::Schedule schedule = schedule_of(kind, spec, chunks);
        const std::vector<schedule::Program> programs = schedule::lower(schedule);
        config::ModelTimes t = times();
        t.message = 0.125;
        const StageTimes stages = stage_times(spec, t, schedule.has_split_backward());
        const Prediction p = predict(spec, schedule, programs, t, 0);
        const schedule::Timeline timeline = schedule::simulate(schedule, programs, stages.durations);
        EXPECT_EQ(p.pipeline, timeline.makespan) << kind;
        EXPECT_EQ(p.step, timeline.makespan) << kind;  // nothing else takes time here
        EXPECT_EQ(p.mfu, 0);
        for (const RankPrediction& rank : p.ranks)
            EXPECT_NEAR(rank.busy + rank.bubble + rank.messages, p.pipeline, 1e-9) << kind;
        // Every micro-batch does each stage's work once.
        for (const RankPrediction& rank : p.ranks)
            EXPECT_NEAR(rank.busy, 8 * (rank.forward + rank.input_gradient + rank.weight_gradient), 1e-9)
                << kind;
        EXPECT_LE(predict(spec, schedule, t, 0).pipeline, p.pipeline + 1e-9) << kind;
    }
}

TEST(Prediction, EqualStagesHaveThePublishedBubble) {
    config::JobSpec spec = job(4, 1, 8, 4);
    config::ModelTimes t;
    t.layer = {1, 2, 1, 1, 0, 0};
    const Prediction p = predict(spec, schedule_of("1f1b", spec, 1), t, 0);
    EXPECT_NEAR(p.bubble, 3.0 / 11, 1e-12);
    EXPECT_NEAR(p.step, 3 * 11, 1e-12);
    EXPECT_DOUBLE_EQ(p.exposed, 0);
}

TEST(Prediction, WhatComesBehindThePipeline) {
    config::JobSpec spec = job(2, 1, 4, 2, 2);
    spec.model.tie_embeddings = true;
    config::ModelTimes t;
    t.layer = {1, 2, 1, 1, 0, 0};
    const schedule::Schedule schedule = schedule_of("1f1b", spec, 1);
    const double pipeline = predict(spec, schedule, t, 0).pipeline;
    EXPECT_DOUBLE_EQ(pipeline, 15);
    const PartElements e = part_elements(spec.model, 1);
    t.optimizer = 1e-3;
    t.norm = 1e-4;
    t.step = 0.5;
    t.data = 0.25;
    Prediction p = predict(spec, schedule, t, 0);
    EXPECT_NEAR(p.optimizer, 1e-3 * (e.layer + e.head), 1e-9);  // the last stage is the larger one
    EXPECT_NEAR(p.norm, 1e-4 * (e.layer + e.head) + 0.5, 1e-9);
    EXPECT_DOUBLE_EQ(p.data, 1);
    EXPECT_NEAR(p.step, 15 + p.optimizer + p.norm + p.data, 1e-9);
    t.remote_tie = 1e-3;
    EXPECT_NEAR(predict(spec, schedule, t, 0).reduction, 1e-3 * e.table, 1e-9);
    // The last stage's sum over replicas runs while the first one still computes: it ends F + B later.
    t.remote_tie = 0;
    t.reduction = 3.0 / (e.layer + e.head);
    p = predict(spec, schedule, t, 0);
    EXPECT_NEAR(p.reduction, t.reduction * (e.layer + e.embedding), 1e-9);
    EXPECT_GT(p.exposed, 0);
    spec.parallel.dp = 1;
    spec.train.global_batch /= 2;
    EXPECT_DOUBLE_EQ(predict(spec, schedule, t, 0).reduction, 0);
}

TEST(Prediction, SharesAndRates) {
    config::JobSpec spec = job(2, 1, 4, 2);
    config::ModelTimes t;
    t.layer = {1, 2, 1, 1, 0.5, 0.25};
    t.message = 0.5;
    const Prediction p = predict(spec, schedule_of("gpipe", spec, 1), t, 1e9);
    // Four micro-batches, two ranks: 5 slots of F and of B, and the pipe's two messages.
    EXPECT_NEAR(p.step, 15 + 1, 1e-12);
    EXPECT_NEAR(p.bubble, 3.0 / 16, 1e-12);
    EXPECT_NEAR(p.exposed, (4 * 0.75 + 1) / 16, 1e-12);
    EXPECT_NEAR(p.tokens_per_s, 8 * 32 / 16.0, 1e-12);
    EXPECT_NEAR(p.mfu, p.model_flops / 16 / 2 / 1e9, 1e-12);
}

TEST(Prediction, FasterPartsNeverMakeASlowerStep) {
    const config::JobSpec spec = job(4, 2, 6, 16, 2);
    const schedule::Schedule schedule = schedule_of("interleaved", spec, 2);
    config::ModelTimes t = times();
    t.message = 0.25;
    t.reduction = 1e-5;
    t.optimizer = t.norm = 1e-6;
    const double before = predict(spec, schedule, t, 0).step;
    const config::FieldTable table = config::table_of(t);
    for (const config::Field& field : table.all()) {
        double& value = *std::get<config::RealField>(field.value).at;
        const double was = value;
        value *= 0.5;
        EXPECT_LE(predict(spec, schedule, t, 0).step, before + 1e-12) << field.path;
        value = was;
    }
}

}  // namespace
}  // namespace escalier::plan
