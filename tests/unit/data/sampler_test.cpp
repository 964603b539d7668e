#include "data/sampler.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "data/permutation.h"
#include "fixtures.h"

namespace escalier::data {
namespace {

class SamplerTest : public DataTest {
 protected:
    Dataset d1_dataset(std::uint64_t seed = 1234) {
        return Dataset(corpus(one_file(write_ids("d1.bin", d1()), "raw16")), 16, seed, 0);
    }
    // Sample k of D1 is filled with token k.
    static std::int32_t sample_id(const Dataset& data, std::int64_t k) {
        std::vector<std::int32_t> inputs(16);
        data.read(k, inputs.data(), nullptr);
        return inputs[0];
    }
};

TEST_F(SamplerTest, D0Has512SamplesWithShiftedTargets) {
    const Dataset data(corpus(one_file(write_ids("d0.bin", d0()), "raw16")), 16, 1, 0);
    EXPECT_EQ(data.samples_per_epoch(), 512);
    EXPECT_EQ(data.valid_targets(5, 8), 128);
    std::vector<std::int32_t> inputs(16), targets(16);
    for (std::int64_t k = 0; k < 512; ++k) {
        data.read(k, inputs.data(), targets.data());
        const std::int64_t begin = data.locate(k).token;
        EXPECT_EQ(begin % 16, 0);
        for (std::int64_t i = 0; i < 16; ++i) {
            EXPECT_EQ(inputs[i], ((begin + i) * (begin + i) + 7 * (begin + i)) % 61);
            EXPECT_EQ(targets[i], ((begin + i + 1) * (begin + i + 1) + 7 * (begin + i + 1)) % 61);
        }
    }
}

TEST_F(SamplerTest, ThreeEpochsAreThreePermutationsTheSameForTheSameSeed) {
    const Dataset data = d1_dataset(), again = d1_dataset(), other = d1_dataset(99);
    std::set<std::vector<std::int32_t>> orders;
    std::vector<std::int32_t> other_order;
    for (int epoch = 0; epoch < 3; ++epoch) {
        std::vector<std::int32_t> order, repeated;
        for (int i = 0; i < 10; ++i) {
            order.push_back(sample_id(data, epoch * 10 + i));
            repeated.push_back(sample_id(again, epoch * 10 + i));
            if (epoch == 0) other_order.push_back(sample_id(other, i));
            EXPECT_EQ(data.locate(epoch * 10 + i).epoch, epoch);
        }
        EXPECT_EQ(order, repeated);
        orders.insert(order);
        std::sort(order.begin(), order.end());
        std::vector<std::int32_t> all(10);
        std::iota(all.begin(), all.end(), 0);
        EXPECT_EQ(order, all);
    }
    EXPECT_EQ(orders.size(), 3u);
    EXPECT_EQ(orders.count(other_order), 0u);
}

// Whatever micro-batch and dp are, a global batch holds the same samples, and the replicas share them out.
TEST_F(SamplerTest, AGlobalBatchIsTheSameForEveryGrid) {
    const Dataset data = d1_dataset();
    constexpr std::int64_t global_batch = 12;
    for (std::int64_t consumed = 0; consumed < 5 * global_batch; consumed += global_batch) {
        std::vector<std::int32_t> wanted;
        for (std::int64_t k = consumed; k < consumed + global_batch; ++k)
            wanted.push_back(sample_id(data, k));
        std::sort(wanted.begin(), wanted.end());
        for (std::int64_t dp : {1, 2, 3, 4, 6, 12})
            for (std::int64_t micro_batch : {1, 2, 3, 4, 6, 12}) {
                if (global_batch % (dp * micro_batch) != 0) continue;
                const BatchLayout layout{micro_batch, dp};
                std::vector<std::int32_t> inputs(static_cast<std::size_t>(16 * micro_batch)), seen;
                std::set<std::int64_t> ordinals;
                for (std::int64_t rank = 0; rank < dp; ++rank)
                    for (std::int64_t mb = 0; mb < global_batch / (dp * micro_batch); ++mb) {
                        read_micro_batch(data, layout, consumed, mb, rank, inputs.data(), nullptr);
                        for (std::int64_t row = 0; row < micro_batch; ++row) {
                            seen.push_back(inputs[static_cast<std::size_t>(16 * row)]);
                            ordinals.insert(layout.sample(consumed, mb, rank, row));
                        }
                    }
                std::sort(seen.begin(), seen.end());
                EXPECT_EQ(seen, wanted) << dp << " replicas, micro-batch " << micro_batch;
                EXPECT_EQ(static_cast<std::int64_t>(ordinals.size()), global_batch);
            }
    }
}

// B50: two replicas over one epoch of D1 see each sample once.
TEST_F(SamplerTest, ReplicasCoverAnEpochWithoutRepeating) {
    const Dataset data = d1_dataset();
    const BatchLayout layout{1, 2};
    std::vector<std::int32_t> seen;
    for (std::int64_t step = 0; step < 5; ++step)
        for (std::int64_t rank = 0; rank < 2; ++rank) {
            std::vector<std::int32_t> inputs(16), targets(16);
            read_micro_batch(data, layout, step * 2, 0, rank, inputs.data(), targets.data());
            seen.push_back(inputs[0]);
        }
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

// B49: 100 tokens make 12 samples of 8; two files make 24; every target comes from the sample's own file.
TEST_F(SamplerTest, NoTargetComesFromBeyondTheFile) {
    std::vector<std::uint16_t> first(100), second(100);
    std::iota(first.begin(), first.end(), 0);
    std::iota(second.begin(), second.end(), 100);
    write_ids("part_0.bin", first);
    write_ids("part_1.bin", second);
    const Dataset one(corpus(one_file(path("part_0.bin"), "raw16"), 200), 8, 7, 0);
    EXPECT_EQ(one.samples_per_epoch(), 12);
    EXPECT_EQ(one.unused_tokens(), 3);
    config::DataConfig blended = one_file(path("part_0.bin"), "raw16");
    blended.train.push_back({path("part_1.bin"), 1.0});
    for (const config::DataConfig& config : {one_file(path("part_*.bin"), "raw16"), blended}) {
        const Dataset two(corpus(config, 200), 8, 7, 0);
        EXPECT_EQ(two.samples_per_epoch(), 24);
        EXPECT_EQ(two.unused_tokens(), 6);
        std::set<std::int32_t> begins;
        for (std::int64_t k = 0; k < 24; ++k) {
            std::vector<std::int32_t> inputs(8), targets(8);
            two.read(k, inputs.data(), targets.data());
            begins.insert(inputs[0]);
            for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(targets[i], inputs[i] + 1);
            EXPECT_EQ(inputs[0] / 100, targets[7] / 100);
        }
        EXPECT_EQ(begins.size(), 24u);
    }
}

TEST_F(SamplerTest, TooLittleDataIsRefusedWithTheNumbers) {
    for (int tokens : {0, 1, 16}) {
        const auto file =
            write_ids("small.bin", std::vector<std::uint16_t>(static_cast<std::size_t>(tokens), 3));
        const std::string message =
            message_of(ExitCode::data_corrupt, [&] { Dataset(corpus(one_file(file, "raw16")), 16, 1, 0); });
        EXPECT_CONTAINS(message, file);
        EXPECT_CONTAINS(message, "has " + std::to_string(tokens) + " tokens");
        EXPECT_CONTAINS(message, "one sample needs 17");
    }
    const auto file = write_ids("enough.bin", std::vector<std::uint16_t>(17, 3));
    EXPECT_EQ(Dataset(corpus(one_file(file, "raw16")), 16, 1, 0).samples_per_epoch(), 1);
    const std::string split = message_of(
        ExitCode::data_corrupt, [&] { Dataset(corpus(one_file(file, "raw16", "50,50,0")), 16, 1, 0); });
    EXPECT_CONTAINS(
        split, "has 17 tokens, of which data.split 50,50,0 leaves 8 to the train split; one sample needs 17");
    write_ids("shard_0.bin", std::vector<std::uint16_t>(16, 3));
    write_ids("shard_1.bin", std::vector<std::uint16_t>(9, 3));
    const std::string shards = message_of(
        ExitCode::data_corrupt, [&] { Dataset(corpus(one_file(path("shard_*"), "raw16")), 16, 1, 0); });
    EXPECT_CONTAINS(
        shards, "has 25 tokens in 2 files, and the train split (data.split 100,0,0) of the largest holds 16");
}

// B48: 3 samples with a global batch of 8 repeat by the epoch rule.
TEST_F(SamplerTest, AGlobalBatchMayRunThroughSeveralEpochs) {
    std::vector<std::uint16_t> ids;
    for (int i = 0; i < 49; ++i) ids.push_back(static_cast<std::uint16_t>(i / 16));
    const Dataset data(corpus(one_file(write_ids("three.bin", ids), "raw16")), 16, 5, 0);
    std::map<std::int32_t, int> uses;
    for (std::int64_t k = 0; k < 6; ++k) ++uses[sample_id(data, k)];
    EXPECT_EQ(uses, (std::map<std::int32_t, int>{{0, 2}, {1, 2}, {2, 2}}));
}

}  // namespace
}  // namespace escalier::data
