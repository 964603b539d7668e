// The section `sweep`: axes over any keys, read as strictly as the keys themselves.
#include <gtest/gtest.h>

#include "config/dump.h"
#include "config_test_support.h"

namespace escalier::config {
namespace {

using namespace testing;

const std::string tiny = "model: {preset: tiny}\n";

SweepConfig sweep_of(const std::string& section) {
    return loaded(tiny + "sweep: " + section + "\n").sweep;
}

TEST(SweepAxes, StayInTheOrderWritten) {
    const SweepConfig sweep =
        sweep_of("{axes: {train.micro_batch: [4, 1], parallel.pp: [2], ranks: [8, 16]}}");
    ASSERT_EQ(sweep.axes.size(), 3u);
    EXPECT_EQ(sweep.axes[0], (SweepAxis{"train.micro_batch", {"4", "1"}}));
    EXPECT_EQ(sweep.axes[1], (SweepAxis{"parallel.pp", {"2"}}));
    EXPECT_EQ(sweep.axes[2], (SweepAxis{"ranks", {"8", "16"}}));
}

TEST(SweepAxes, KeepValuesOfEveryKind) {
    const SweepConfig sweep = sweep_of(
        "{axes: {pipeline.layout: [even, [1, 3]], train.recompute: [none, {every: 2}, [full, none]], "
        "lr.peak: [1e-3, "
        "2.0e-3], parallel.dp: [auto, 2], model.tie_embeddings: [true], model.rope.scaling: [null, {factor: "
        "4}], "
        "data.train: [[{path: a}]], pipeline.file: [null, x.csv], model.arch: [gpt2]}}");
    EXPECT_EQ(sweep.axes[0].values, (Sets{"even", "[1, 3]"}));
    EXPECT_EQ(sweep.axes[1].values, (Sets{"none", "{every: 2}", "[full, none]"}));
    EXPECT_EQ(sweep.axes[2].values, (Sets{"0.001", "0.002"}));
    EXPECT_EQ(sweep.axes[3].values, (Sets{"auto", "2"}));
    EXPECT_EQ(sweep.axes[4].values, (Sets{"true"}));
    EXPECT_EQ(sweep.axes[5].values[0], "null");
    EXPECT_TRUE(contains(sweep.axes[5].values[1], "factor: 4.0")) << sweep.axes[5].values[1];
    EXPECT_EQ(sweep.axes[6].values, (Sets{"[{path: a, weight: 1.0}]"}));
    EXPECT_EQ(sweep.axes[7].values, (Sets{"null", "x.csv"}));
    EXPECT_EQ(sweep.axes[8].values, (Sets{"gpt2"}));
    // What --set takes for a point is what the axis holds.
    for (const SweepAxis& axis : sweep.axes)
        for (const std::string& value : axis.values) {
            JobSpec point = loaded(tiny, {axis.key + "=" + value});
            const FieldTable table = table_of(point);
            EXPECT_EQ(yaml_text(table.find(axis.key)->value), value) << axis.key;
        }
}

TEST(SweepAxes, TakeVariablesOfTheEnvironment) {
    const std::string text = tiny + "sweep:\n  axes:\n    parallel.pp:\n      - 1\n      - ${PP}\n";
    const JobSpec spec = load({"job.yaml", text}, {}, environment({{"PP", "4"}})).spec;
    EXPECT_EQ(spec.sweep.axes, (std::vector<SweepAxis>{{"parallel.pp", {"1", "4"}}}));
}

TEST(SweepAxes, AreNoPartOfAnotherValue) {
    // The values of one axis do not build on each other.
    const SweepConfig sweep = sweep_of("{axes: {model.rope.scaling: [{factor: 4}, {low_freq_factor: 2}]}}");
    EXPECT_TRUE(contains(sweep.axes[0].values[1], "factor: 8.0,")) << sweep.axes[0].values[1];
}

struct Fault {
    std::string sweep;
    std::string message;
};
void PrintTo(const Fault& fault, std::ostream* out) {
    *out << fault.message;
}
class SweepRefused : public ::testing::TestWithParam<Fault> {};

TEST_P(SweepRefused, NamesPlaceAndRule) {
    const std::string said = fault(tiny + "sweep: " + GetParam().sweep + "\n");
    EXPECT_TRUE(contains(said, GetParam().message)) << "said: " << said;
    EXPECT_EQ(lines(said), 1) << said;
}

std::string numbers(int count) {
    std::string out;
    for (int i = 1; i <= count; ++i) out += (i > 1 ? ", " : "") + std::to_string(i);
    return "[" + out + "]";
}

INSTANTIATE_TEST_SUITE_P(
    Axes, SweepRefused,
    ::testing::Values(
        Fault{"{axes: {parallel.ppp: [1]}}",
              "job.yaml:2:16: sweep.axes: found parallel.ppp, which is no key of the job; did you mean "
              "parallel.pp?"},
        Fault{"{axes: {parallel: [1]}}",
              "found the section parallel, wanted one of its keys with its path, such as "
              "parallel.tp"},
        Fault{"{axes: {schedule: [gpipe]}}", "the key schedule stands in another section: pipeline.schedule"},
        Fault{"{axes: {[a]: [1]}}", "sweep.axes: found a list as a key"},
        Fault{"{axes: {run.name: [a]}}", "found run.name, which is the same for all points"},
        Fault{"{axes: {sweep.axes: [{}]}}", "found sweep.axes, which is the same for all points"},
        Fault{"{axes: {parallel.pp: 2}}",
              "job.yaml:2:29: sweep.axes: found 2 for parallel.pp, wanted a list"},
        Fault{"{axes: {parallel.pp: []}}", "found an empty list for parallel.pp"},
        Fault{"{axes: {parallel.pp: [1, two]}}",
              "job.yaml:2:33: parallel.pp: found two, wanted a whole number"},
        Fault{"{axes: {parallel.pp: [1, 010]}}", "a leading zero would mean octal"},
        Fault{"{axes: {parallel.pp: [1, \"2\"]}}", "drop the quotes"},
        Fault{"{axes: {pipeline.schedule: [1f1b, gpip]}}", "did you mean gpipe?"},
        Fault{"{axes: {ranks: [0]}}", "ranks: found 0, wanted a whole number from 1 to 1048576"},
        Fault{"{axes: {parallel.pp: [1, 2, 1]}}", "parallel.pp takes 1 twice"},
        Fault{"{axes: {lr.peak: [1e-3, 0.001]}}", "lr.peak takes 0.001 twice"},
        Fault{"{axes: {parallel.pp: [1], parallel.pp: [2]}}", "parallel.pp is given twice"},
        Fault{"{axes: 3}", "sweep.axes: found 3, wanted a map such as"},
        Fault{"{axis: {}}", "sweep.axis: unknown key; did you mean sweep.axes?"},
        Fault{"{axes: {train.steps: " + numbers(4097) + "}}",
              "with the 4097 values of train.steps there are more than 4096 points"},
        Fault{"{axes: {train.steps: " + numbers(65) + ", run.seed: " + numbers(64) + "}}",
              "with the 64 values of run.seed there are more than 4096 points"}));

INSTANTIATE_TEST_SUITE_P(
    Exclude, SweepRefused,
    ::testing::Values(
        Fault{"{axes: {parallel.pp: [1]}, exclude: {parallel.pp: 1}}",
              "sweep.exclude: found a map, wanted a list"},
        Fault{"{axes: {parallel.pp: [1]}, exclude: [1]}", "sweep.exclude[0]: found 1, wanted a map"},
        Fault{"{axes: {parallel.pp: [1]}, exclude: [{}]}", "sweep.exclude[0]: found an empty map"},
        Fault{"{axes: {parallel.pp: [1]}, exclude: [{parallel.pp: one}]}",
              "parallel.pp: found one, wanted a whole"},
        Fault{"{axes: {parallel.pp: [1]}, exclude: [{parallel.pp: 2}]}",
              "entry 0 has parallel.pp: 2, a value that its axis does not take: 1"},
        Fault{"{axes: {parallel.pp: [1]}, exclude: [{parallel.tp: 1}]}",
              "entry 0 has parallel.tp, which is no axis; axes: parallel.pp"},
        Fault{"{axes: {parallel.pp: [1]}, exclude: [{parallel.pp: 1, parallel.pp: 1}]}",
              "sweep.exclude[0]: parallel.pp is given twice"},
        Fault{"{exclude: [{parallel.pp: 1}]}", "entry 0 has parallel.pp, which is no axis"}));

TEST(SweepRefused, PointsAtWhatSetGave) {
    EXPECT_TRUE(contains(fault(tiny, 1, {"sweep.axes={parallel.pp: [0]}"}),
                         "--set sweep.axes={parallel.pp: [0]}: parallel.pp: found 0, wanted"));
}

}  // namespace
}  // namespace escalier::config
