// Sums in rank order, to the bit, whatever the way: shared memory or messages, long or short, blocking or in
// the background, in pieces of any size.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "comm/mpi_communicator.h"
#include "core/bfloat16.h"
#include "core/rng.h"
#include "tests/harness/multirank_main.h"

namespace escalier::comm {
namespace {

using test::env;

// Values whose sum depends on the order of its terms.
template <class T>
T value(int rank, std::int64_t index) {
    const PhiloxBlock block = philox(static_cast<std::uint64_t>(rank), 7, static_cast<std::uint64_t>(index));
    const double magnitude = std::pow(10.0, static_cast<double>(block[1] % 9) - 4.0);
    return static_cast<T>((uniform(block[0]) - 0.5) * magnitude);
}

template <>
BFloat16 value<BFloat16>(int rank, std::int64_t index) {
    return to_bfloat16(value<float>(rank, index));
}

template <class T>
std::vector<T> values(int rank, std::int64_t elements) {
    std::vector<T> x(static_cast<std::size_t>(elements));
    for (std::int64_t i = 0; i < elements; ++i) x[static_cast<std::size_t>(i)] = value<T>(rank, i);
    return x;
}

template <class T>
std::vector<T> sum_in_rank_order(int ranks, std::int64_t elements) {
    std::vector<T> sum = values<T>(0, elements);
    for (int r = 1; r < ranks; ++r) {
        const std::vector<T> term = values<T>(r, elements);  // stored, so that no multiply-add can fuse
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += term[i];
    }
    return sum;
}

// In float, rounded once.
template <>
std::vector<BFloat16> sum_in_rank_order<BFloat16>(int ranks, std::int64_t elements) {
    std::vector<BFloat16> sum(static_cast<std::size_t>(elements));
    for (std::int64_t i = 0; i < elements; ++i) {
        float exact = to_float(value<BFloat16>(0, i));
        for (int r = 1; r < ranks; ++r) exact += to_float(value<BFloat16>(r, i));
        sum[static_cast<std::size_t>(i)] = to_bfloat16(exact);
    }
    return sum;
}

template <class T>
T shown(T x) {
    return x;
}
float shown(BFloat16 x) {
    return to_float(x);
}

template <class T>
TensorView view(std::vector<T>& x) {
    return TensorView(x.data(), dtype_of<T>(), Shape{static_cast<std::int64_t>(x.size())});
}

template <class T>
void expect_same_bits(const std::vector<T>& a, const std::vector<T>& b, const std::string& what) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i)
        ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(T)), 0)
            << what << ", element " << i << ": " << shown(a[i]) << " and " << shown(b[i]);
}

struct Way {
    std::string name;
    CommOptions options;
};

std::vector<Way> ways() {
    CommOptions shared, small_slots, messages, small_chunks, odd_chunks;
    small_slots.slot_bytes = small_slots.background_slot_bytes = 1024;
    messages.shared_memory = small_chunks.shared_memory = odd_chunks.shared_memory = false;
    small_chunks.chunk_elements = 1000;
    small_chunks.message_bytes = 1000;
    odd_chunks.chunk_elements = 77;
    odd_chunks.message_bytes = 77;
    return {{"shared memory", shared},
            {"small slots", small_slots},
            {"messages", messages},
            {"chunks of 1000", small_chunks},
            {"chunks of 77", odd_chunks}};
}

class CommunicatorTest : public ::testing::TestWithParam<std::size_t> {
 protected:
    void SetUp() override {
        way_ = ways()[GetParam()];
        world_ = env().make_world(way_.options);
        rank_ = world_->rank();
        size_ = world_->size();
    }
    template <class T>
    void expect_sum(std::int64_t elements) {
        std::vector<T> x = values<T>(rank_, elements);
        world_->all_reduce_sum(view(x), "sum");
        expect_same_bits(x, sum_in_rank_order<T>(size_, elements), way_.name);
    }
    Way way_;
    std::unique_ptr<Communicator> world_;
    int rank_ = 0, size_ = 1;
};

const std::vector<std::int64_t> lengths = {0, 1, 2, 3, 17, 255, 1000, 4096, 16385, 70000, 300001};

TEST_P(CommunicatorTest, SumsInRankOrder) {
    for (const std::int64_t elements : lengths) {
        expect_sum<float>(elements);
        expect_sum<double>(elements);
        expect_sum<BFloat16>(elements);
    }
}

TEST_P(CommunicatorTest, ManyShortSumsFollowOneAnother) {
    for (int i = 0; i < 300; ++i) expect_sum<double>(1 + i % 3);
}

TEST_P(CommunicatorTest, BackgroundSumsEqualBlockingOnes) {
    std::vector<std::vector<float>> tensors, scratch;
    std::vector<std::unique_ptr<AllReduce>> sums;
    for (const std::int64_t elements : lengths) {
        tensors.push_back(values<float>(rank_, elements));
        scratch.emplace_back(static_cast<std::size_t>(world_->all_reduce_scratch_elements(elements)));
    }
    for (std::size_t i = 0; i < tensors.size(); ++i)
        sums.push_back(world_->make_all_reduce(view(tensors[i]), view(scratch[i])));
    for (int step = 0; step < 3; ++step) {
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            const std::vector<float> fresh = values<float>(rank_, lengths[i]);
            std::copy(fresh.begin(), fresh.end(), tensors[i].begin());
        }
        for (auto& sum : sums) {
            EXPECT_TRUE(sum->done());
            sum->start();
        }
        expect_sum<double>(1000);  // blocking ones go on meanwhile
        for (auto& sum : sums) sum->wait("background sum");
        for (std::size_t i = 0; i < tensors.size(); ++i)
            expect_same_bits(tensors[i], sum_in_rank_order<float>(size_, lengths[i]), way_.name);
    }
}

TEST_P(CommunicatorTest, BackgroundSumsOfBFloat16RoundOnce) {
    std::vector<BFloat16> x = values<BFloat16>(rank_, 70000);
    std::vector<BFloat16> scratch(static_cast<std::size_t>(world_->all_reduce_scratch_elements(70000)));
    const auto sum = world_->make_all_reduce(view(x), view(scratch));
    sum->start();
    sum->wait("background sum");
    expect_same_bits(x, sum_in_rank_order<BFloat16>(size_, 70000), way_.name);
}

TEST_P(CommunicatorTest, BackgroundSumsFinishWithoutPolls) {
    std::vector<float> x = values<float>(rank_, 300001);
    std::vector<float> scratch(static_cast<std::size_t>(world_->all_reduce_scratch_elements(300001)));
    const auto sum = world_->make_all_reduce(view(x), view(scratch));
    sum->start();
    const std::vector<float> expected = sum_in_rank_order<float>(size_, 300001);
    usleep(300 * 1000);  // the progress thread is alone with it
    sum->wait("background sum");
    expect_same_bits(x, expected, way_.name);
}

TEST_P(CommunicatorTest, MaximumKeepsNaN) {
    std::vector<int> ranks = {rank_, -rank_, 5};
    world_->all_reduce_max(view(ranks), "max");
    EXPECT_EQ(ranks, (std::vector<int>{size_ - 1, 0, 5}));
    std::vector<double> x(5000, rank_ + 0.5);
    x[4999] = rank_ == size_ - 1 ? std::numeric_limits<double>::quiet_NaN() : 1.0;
    world_->all_reduce_max(view(x), "max");
    EXPECT_EQ(x[0], size_ - 0.5);
    EXPECT_EQ(x[4998], size_ - 0.5);
    EXPECT_TRUE(std::isnan(x[4999]));
}

TEST_P(CommunicatorTest, GathersAndBroadcasts) {
    for (const std::int64_t elements : {std::int64_t{0}, std::int64_t{1}, std::int64_t{5001}}) {
        std::vector<double> own = values<double>(rank_, elements),
                            all(static_cast<std::size_t>(elements * size_));
        world_->all_gather(view(all), view(own), "gather");
        for (int r = 0; r < size_; ++r) {
            const auto begin = all.begin() + r * elements;
            expect_same_bits(std::vector<double>(begin, begin + elements), values<double>(r, elements),
                             "gather");
        }
        for (int root = 0; root < size_; ++root) {
            std::vector<double> x = values<double>(rank_, elements);
            world_->broadcast(view(x), root, "broadcast");
            expect_same_bits(x, values<double>(root, elements), "broadcast");
        }
    }
}

TEST_P(CommunicatorTest, SplitsByColorOrderedByKey) {
    const auto reversed = world_->split(rank_ % 2, -rank_);
    ASSERT_NE(reversed, nullptr);
    const int members = (size_ + 1 - rank_ % 2) / 2;
    EXPECT_EQ(reversed->size(), members);
    EXPECT_EQ(reversed->rank(), members - 1 - rank_ / 2);
    std::vector<double> sum = {static_cast<double>(rank_)};
    reversed->all_reduce_sum(view(sum), "sum of a part");
    double expected = 0;
    for (int r = rank_ % 2; r < size_; r += 2) expected += r;
    EXPECT_EQ(sum[0], expected);
    EXPECT_EQ(world_->split(rank_ == 0 ? -1 : 0, 0) == nullptr, rank_ == 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, CommunicatorTest, ::testing::Range<std::size_t>(0, ways().size()));

TEST(MpiEnv, FindsPlaces) {
    EXPECT_EQ(env().place().local_rank, env().world().rank());  // one host
    EXPECT_EQ(env().place().local_size, env().world().size());
    EXPECT_GE(env().place().node_cores, env().place().allowed_cores);
    EXPECT_GE(env().place().allowed_cores, 1);
    EXPECT_EQ(env().version().rfind("Open MPI ", 0), 0u) << env().version();
    EXPECT_EQ(env().clock_offset(env().world()), 0.0);
}

TEST(MpiEnv, AgreesOnTheLowestFailingRank) {
    env().agree([] {});
    const int rank = env().world().rank(), size = env().world().size();
    try {
        env().agree([&] {
            if (rank >= size / 2) throw IoError::read("no file on rank " + std::to_string(rank));
        });
        FAIL() << "nothing was thrown";
    } catch (const AgreedError& error) {
        EXPECT_EQ(error.code(), ExitCode::input_missing);
        EXPECT_EQ(std::string(error.what()), "no file on rank " + std::to_string(size / 2));
    }
}

TEST(MpiEnv, GathersBytesOfAnyLengthInTheOrderOfRanks) {
    const auto brought = [](int rank) {
        std::string text;
        for (int i = 0; i < (rank % 2 ? 0 : 300000 + rank); ++i) text += static_cast<char>(i * 31 + rank);
        return text;
    };
    for (int round = 0; round < 2; ++round) {
        int next = 0;
        env().gather_bytes(env().world(), brought(env().world().rank()), "bytes of a test",
                           [&](int rank, const std::string& bytes) {
                               EXPECT_EQ(rank, next++);
                               EXPECT_TRUE(bytes == brought(rank)) << "rank " << rank;
                           });
        EXPECT_EQ(next, env().world().rank() == 0 ? env().world().size() : 0);
    }
}

}  // namespace
}  // namespace escalier::comm
