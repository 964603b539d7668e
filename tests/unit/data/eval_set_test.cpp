#include <numeric>
#include <set>

#include "fixtures.h"

namespace escalier::data {
namespace {

using Ids = std::vector<std::int32_t>;

class EvalSetTest : public DataTest {
 protected:
    // `samples` samples of 8 tokens; sample k is filled with token k.
    std::string samples_file(const std::string& name, int samples, int first = 0) {
        std::vector<std::uint16_t> ids;
        for (int i = 0; i < samples * 8 + 1; ++i) ids.push_back(static_cast<std::uint16_t>(first + i / 8));
        return write_ids(name, ids);
    }
    static Ids contents(const EvalSet& set) {
        Ids all;
        for (std::int64_t k = 0; k < set.size(); ++k) {
            Ids inputs(8);
            set.read(k, inputs.data(), nullptr);
            all.push_back(inputs[0]);
        }
        return all;
    }
};

TEST_F(EvalSetTest, SpreadsOverTheSplitInAFixedOrder) {
    const auto opened = corpus(one_file(samples_file("v.bin", 20), "raw16", "0,1,0"));
    EXPECT_EQ(contents(EvalSet(opened, 8, 5)), (Ids{0, 4, 8, 12, 16}));
    EXPECT_EQ(contents(EvalSet(opened, 8, 20)).back(), 19);
    EXPECT_TRUE(EvalSet(opened, 8, 20).note().empty());
}

TEST_F(EvalSetTest, UsesWhatThereIsAndPadsTheLastBatch) {
    const auto opened = corpus(one_file(samples_file("v.bin", 10), "raw16", "0,1,0"));
    const EvalSet set(opened, 8, 32);
    EXPECT_EQ(set.size(), 10);
    EXPECT_EQ(set.batches(4), 3);
    EXPECT_CONTAINS(set.note(), "evaluation uses 10 of the 32 asked for");
    EXPECT_EQ(set.valid_targets(0, 4), 32);
    EXPECT_EQ(set.valid_targets(8, 4), 16);
    EXPECT_EQ(set.valid_targets(12, 4), 0);
    // The valid targets known beforehand are those that are read, in every batch and on every grid.
    for (std::int64_t consumed = 0; consumed < 12; consumed += 4)
        for (std::int64_t dp : {1, 2, 4}) {
            std::int64_t valid = 0;
            for (std::int64_t rank = 0; rank < dp; ++rank)
                for (std::int64_t mb = 0; mb < 4 / dp; ++mb) {
                    Ids inputs(8, -5), targets(8);
                    read_micro_batch(set, {1, dp}, consumed, mb, rank, inputs.data(), targets.data());
                    for (std::size_t i = 0; i < 8; ++i) {
                        valid += targets[i] != no_target;
                        EXPECT_GE(inputs[i], 0);
                    }
                }
            EXPECT_EQ(valid, set.valid_targets(consumed, 4));
        }
}

TEST_F(EvalSetTest, AnEmptySplitIsEmptyAndSaysSo) {
    const auto opened = corpus(one_file(samples_file("v.bin", 10), "raw16", "1,0,0"));
    const EvalSet set(opened, 8, 32);
    EXPECT_EQ(set.size(), 0);
    EXPECT_EQ(set.batches(4), 0);
    EXPECT_CONTAINS(set.note(), "no validation: ");
    EXPECT_CONTAINS(set.note(), "of which data.split 1,0,0 leaves 0 to the validation split");
    const EvalSet few(corpus(one_file(samples_file("w.bin", 10), "raw16", "9,1,0")), 8, 32);
    EXPECT_EQ(few.size(), 0);
    EXPECT_CONTAINS(few.note(), "leaves 8 to the validation split; one sample needs 9");
}

TEST_F(EvalSetTest, TakesEachSourceByWeight) {
    config::DataConfig config = one_file(samples_file("a.bin", 20), "raw16", "0,1,0");
    config.train = {{path("a.bin"), 1.0}, {samples_file("b.bin", 30, 30), 3.0}};
    const Ids all = contents(EvalSet(corpus(config), 8, 8));
    EXPECT_EQ(all, (Ids{0, 10, 30, 35, 40, 45, 50, 55}));
    // A source that runs out gives what it has.
    EXPECT_EQ(EvalSet(corpus(config), 8, 200).size(), 50);
}

}  // namespace
}  // namespace escalier::data
