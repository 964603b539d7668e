#include "sweep/agreement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sweep_test_support.h"

namespace escalier::sweep {
namespace {

using namespace testing;

config::JobSpec spec_with(std::vector<std::string> sets, std::int64_t ranks) {
    sets.insert(sets.begin(), "run.device=cpu");
    return config::resolve(config::load({"job.yaml", job}, sets, no_variable), ranks, config::any_schedule)
        .spec;
}

ResultKey key_of(const std::vector<std::string>& sets, std::int64_t ranks, bool exact = true) {
    return result_key(spec_with(sets, ranks), exact);
}

TEST(ResultKey, IsTheSameWhereBitsAre) {
    const ResultKey base = key_of({}, 1);
    for (const std::vector<std::string>& same : std::vector<std::vector<std::string>>{
             {"parallel.pp=2"},
             {"parallel.pp=2", "pipeline.schedule=gpipe"},
             {"parallel.pp=2", "pipeline.schedule=interleaved"},
             {"parallel.pp=2", "pipeline.layout=[1, 3]"},
             {"parallel.pp=2", "train.recompute=full"},
             {"run.threads=2", "run.name=other", "log.every=7", "eval.every=3"},
             {"checkpoint.every=2", "run.max_minutes=1"}}) {
        const ResultKey key = key_of(same, same[0] == "parallel.pp=2" ? 2 : 1);
        EXPECT_EQ(key.training, base.training) << same.back();
        EXPECT_EQ(key.bits, base.bits) << same.back();
    }
}

TEST(ResultKey, IsTheSameToRoundingAcrossTpDpAndMicroBatches) {
    const ResultKey base = key_of({}, 1);
    const auto rounded = [&](const ResultKey& key) {
        EXPECT_EQ(key.training, base.training);
        EXPECT_NE(key.bits, base.bits);
    };
    rounded(key_of({"parallel.tp=2"}, 2));
    rounded(key_of({"parallel.dp=2"}, 2));
    rounded(key_of({"train.micro_batch=2"}, 1));
    rounded(key_of({}, 1, false));  // a schedule that gives bit-equality up
    EXPECT_TRUE(key_of({}, 1, false).bits.empty());
}

TEST(ResultKey, IsAnotherWhereTrainingIs) {
    const ResultKey base = key_of({}, 1);
    for (const std::string set :
         {"run.seed=1", "train.global_batch=4", "lr.peak=0.1", "train.seq_len=64", "optimizer.clip_grad=0",
          "model.dropout=0.1", "data.order=megatron", "train.steps=7"})
        EXPECT_NE(key_of({set}, 1).training, base.training) << set;
    // Of other lengths, yet with the same learning rates.
    EXPECT_EQ(key_of({"train.steps=7", "lr.decay_steps=50"}, 1).training,
              key_of({"lr.decay_steps=50"}, 1).training);
}

RunMetrics losses(const std::vector<double>& values, double norm = 1) {
    RunMetrics metrics;
    for (std::size_t i = 0; i < values.size(); ++i)
        metrics.steps[static_cast<std::int64_t>(i) + 1] = {.loss = values[i], .grad_norm = norm};
    return metrics;
}

struct Run {
    ResultKey key;
    RunMetrics metrics;
};

std::vector<Comparison> compared(const std::vector<Run>& runs) {
    std::vector<ComparedRun> list;
    for (std::size_t i = 0; i < runs.size(); ++i)
        list.push_back({"#" + std::to_string(i), runs[i].key, &runs[i].metrics});
    return compare(list);
}

TEST(Compare, WantsTheSameBitsOfEqualKeys) {
    const ResultKey a{"t", "b"};
    const auto found = compared({{a, losses({3, 2, 1})},
                                 {a, losses({3, 2, 1})},
                                 {a, losses({3, 2, std::nextafter(1.0, 2.0)})},
                                 {a, losses({3, 2, 1}, 1.0000001)},
                                 {{"other", "b"}, losses({9, 8, 7})}});
    EXPECT_EQ(found[0].text, "reference");
    EXPECT_EQ(found[1].text, "same bits as #0");
    EXPECT_EQ(found[2].text, "DIFFERS from #0 at step 3: loss 1.0000000000000002 against 1 there");
    EXPECT_EQ(found[2].agreement, Agreement::differs);
    EXPECT_EQ(found[3].text, "DIFFERS from #0 at step 1: gradient norm 1.0000001 against 1 there");
    EXPECT_EQ(found[4].text, "alone");
}

TEST(Compare, AllowsRoundingBetweenOthersOfTheSameTraining) {
    const auto found = compared({{{"t", "b"}, losses({2})},
                                 {{"t", "c"}, losses({2 + 1e-6})},
                                 {{"t", "c"}, losses({2 + 1e-6})},
                                 {{"t", "c"}, losses({2})},
                                 {{"t", ""}, losses({2 + 4e-5})},
                                 {{"t", ""}, losses({2})}});
    EXPECT_EQ(found[1].text, "within 5.0e-07 of #0");
    EXPECT_EQ(found[2].text, "same bits as #1");
    EXPECT_EQ(found[3].agreement, Agreement::differs);  // from #1, whose bits it must have
    EXPECT_EQ(found[4].text, "DIFFERS from #0 at step 1: loss 2.00004 against 2 there");
    EXPECT_EQ(found[5].text, "within 0.0e+00 of #0");  // never to the bit
}

TEST(Compare, LooksAtTenStepsForRoundingAndAtAllForBits) {
    std::vector<double> values(20, 1.0), late = values;
    late[15] = 1.5;
    const auto found =
        compared({{{"t", "b"}, losses(values)}, {{"t", "c"}, losses(late)}, {{"t", "b"}, losses(late)}});
    EXPECT_EQ(found[1].agreement, Agreement::close);
    EXPECT_EQ(found[2].agreement, Agreement::differs);
}

TEST(Compare, TakesLossesThatAreNoNumbers) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const auto found = compared({{{"t", "b"}, losses({1, nan})},
                                 {{"t", "b"}, losses({1, nan})},
                                 {{"t", "c"}, losses({1, 1})},
                                 {{"t", "d"}, losses({})}});
    EXPECT_EQ(found[1].agreement, Agreement::same_bits);
    EXPECT_EQ(found[2].agreement, Agreement::differs);
    EXPECT_EQ(found[3].text, "no step in common with #0");
}

TEST(ResultKey, PromisesNothingAcrossTpInBf16) {
    config::JobSpec one = spec_with({}, 1), two = spec_with({"parallel.tp=2"}, 2);
    one.train.dtype = two.train.dtype = "bf16";
    EXPECT_NE(result_key(one, true).training, result_key(two, true).training);
}

}  // namespace
}  // namespace escalier::sweep
