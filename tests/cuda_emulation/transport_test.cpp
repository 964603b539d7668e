// NCCL and staged transports on emulated GPUs: the bits of the host's sums, messages in order, and every wait
// in its place, for work that nothing orders runs in a random order here. Under `nccl` every rank has a
// device of its own, under `staged` all of them share one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "comm/mpi_communicator.h"
#include "comm/nccl_transport.h"
#include "comm/staged_memory.h"
#include "comm/staged_transport.h"
#include "core/bfloat16.h"
#include "core/rng.h"
#include "cuda_emulation/random.h"
#include "kernels/common/cuda_twins.h"
#include "tests/harness/multirank_main.h"

namespace escalier::comm {
namespace {

using test::env;

constexpr const char* label = "a test";
constexpr std::int64_t part_bytes = 64 * 1024;  // so that longer tensors go in parts

// Values whose sum depends on the order of its terms.
float value(int rank, int round, std::int64_t index) {
    const PhiloxBlock block = philox(static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(round),
                                     static_cast<std::uint64_t>(index));
    return (uniform(block[0]) - 0.5f) * static_cast<float>(std::pow(10.0, block[1] % 9 - 4.0));
}

template <class T>
std::vector<T> values(int rank, int round, std::int64_t elements) {
    std::vector<T> x(static_cast<std::size_t>(elements));
    for (std::int64_t i = 0; i < elements; ++i) {
        const float at = value(rank, round, i);
        if constexpr (std::is_same_v<T, BFloat16>)
            x[static_cast<std::size_t>(i)] = to_bfloat16(at);
        else
            x[static_cast<std::size_t>(i)] = static_cast<T>(at);
    }
    return x;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

class TransportTest : public ::testing::TestWithParam<std::string> {
 protected:
    void SetUp() override {
        const bool nccl = GetParam() == "nccl";
        device_ = std::make_unique<device::CudaDevice>(nccl ? env().place().local_rank : 0, true);
        transport_ = nccl ? make_nccl_transport(env(), *device_, kernels::cuda::sum_parts, true, part_bytes)
                          : make_staged_transport(env(), *device_, part_bytes);
        host_ = env().make_world({});
        group_ = transport_->on_device(env().make_world({}));
        rank_ = host_->rank();
        size_ = host_->size();
        EXPECT_EQ(transport_->name(), GetParam());
        EXPECT_EQ(group_->rank(), rank_);
        EXPECT_EQ(group_->size(), size_);
    }
    void TearDown() override {
        cuda_emulation::set_seed(1);
        settle();
        pinned_.clear();
    }
    void settle() {
        env().wait_until(label, [this] {
            transport_->check();
            return device_->idle();
        });
    }

    // What was queued to be read; its values are there once the device is idle.
    template <class T>
    struct Read {
        const T* data = nullptr;
        std::int64_t elements = 0;
        std::vector<T> values() const { return std::vector<T>(data, data + elements); }
    };

    // Device memory for some elements.
    template <class T>
    struct Array {
        Array(TransportTest& test_, std::int64_t elements)
            : test(test_),
              view(test.device_->allocator().allocate(bytes(elements), "a test"), dtype_of<T>(), {elements}) {
        }
        ~Array() { test.device_->allocator().free(view.data(), bytes(view.elements())); }
        Array(const Array&) = delete;
        static std::size_t bytes(std::int64_t elements) {
            return std::max<std::size_t>(1, static_cast<std::size_t>(elements) * sizeof(T));
        }
        // Both are queued, by way of pinned memory: with other memory CUDA itself waits.
        void write(const std::vector<T>& from) {
            T* host = test.pinned<T>(view.elements());
            std::copy(from.begin(), from.end(), host);
            test.device_->upload(view.data(), host, view.bytes());
        }
        Read<T> read() {
            T* host = test.pinned<T>(view.elements());
            test.device_->download(host, view.data(), view.bytes());
            return {host, view.elements()};
        }
        TransportTest& test;
        TensorView view;
    };
    template <class T>
    T* pinned(std::int64_t elements) {
        pinned_.emplace_back(*device_, Array<T>::bytes(elements), "a test");
        return reinterpret_cast<T*>(pinned_.back().data());
    }

    template <class T>
    void expect_sums(std::int64_t elements) {
        Array<T> x(*this, elements);
        const std::vector<T> own = values<T>(rank_, 1, elements);
        std::vector<T> expected = own;
        x.write(own);
        group_->all_reduce_sum(x.view, label);
        const Read<T> got = x.read();
        host_->all_reduce_sum(TensorView(expected.data(), dtype_of<T>(), {elements}), label);
        settle();
        EXPECT_TRUE(same_bits(got.values(), expected))
            << elements << " elements of " << sizeof(T) << " bytes";
    }

    std::unique_ptr<device::CudaDevice> device_;
    std::unique_ptr<Transport> transport_;
    std::unique_ptr<Communicator> host_, group_;
    int rank_ = 0, size_ = 1;
    std::list<StagedMemory> pinned_;
};

constexpr int seeds = 12;
const std::vector<std::int64_t> lengths = {0, 1, 3, 63, 64, 65, 255, 257, 1000, 4096, 30000, 70001};

TEST_P(TransportTest, SumsAreTheBitsOfTheHosts) {
    for (int seed = 0; seed < seeds; ++seed) {
        cuda_emulation::set_seed(static_cast<std::uint64_t>(seed));
        for (const std::int64_t elements : lengths) {
            expect_sums<float>(elements);
            expect_sums<BFloat16>(elements);
        }
    }
}

TEST_P(TransportTest, GathersAndBroadcasts) {
    for (int seed = 0; seed < seeds; ++seed) {
        cuda_emulation::set_seed(static_cast<std::uint64_t>(seed));
        for (const std::int64_t elements : {std::int64_t{1}, std::int64_t{77}, std::int64_t{5000}}) {
            Array<float> own(*this, elements), all(*this, elements * size_), one(*this, elements);
            const std::vector<float> mine = values<float>(rank_, seed, elements);
            own.write(mine);
            one.write(mine);
            group_->all_gather(all.view, own.view, label);
            group_->broadcast(one.view, size_ - 1, label);
            const Read<float> gathered = all.read(), cast = one.read();
            settle();
            std::vector<float> expected;
            for (int r = 0; r < size_; ++r) {
                const std::vector<float> theirs = values<float>(r, seed, elements);
                expected.insert(expected.end(), theirs.begin(), theirs.end());
            }
            EXPECT_TRUE(same_bits(gathered.values(), expected)) << elements << " elements, seed " << seed;
            EXPECT_TRUE(same_bits(cast.values(), values<float>(size_ - 1, seed, elements)))
                << "seed " << seed;
        }
    }
}

// Nothing waits between them: what one has left in memory that all share must have been read.
TEST_P(TransportTest, CollectivesFollowOneAnother) {
    constexpr std::int64_t elements = 6000;
    constexpr int rounds = 6;
    for (int seed = 0; seed < seeds; ++seed) {
        cuda_emulation::set_seed(static_cast<std::uint64_t>(seed));
        std::vector<std::unique_ptr<Array<float>>> sums, gathers;
        std::vector<Read<float>> summed, gathered;
        for (int round = 0; round < rounds; ++round) {
            sums.push_back(std::make_unique<Array<float>>(*this, elements));
            gathers.push_back(std::make_unique<Array<float>>(*this, elements * size_));
            sums.back()->write(values<float>(rank_, round, elements));
            group_->all_gather(gathers.back()->view, sums.back()->view, label);
            group_->all_reduce_sum(sums.back()->view, label);
        }
        for (const auto& array : sums) summed.push_back(array->read());
        for (const auto& array : gathers) gathered.push_back(array->read());
        settle();
        for (int round = 0; round < rounds; ++round) {
            const auto i = static_cast<std::size_t>(round);
            std::vector<float> sum = values<float>(rank_, round, elements), all;
            host_->all_reduce_sum(TensorView(sum.data(), DType::f32, {elements}), label);
            for (int r = 0; r < size_; ++r) {
                const std::vector<float> theirs = values<float>(r, round, elements);
                all.insert(all.end(), theirs.begin(), theirs.end());
            }
            EXPECT_TRUE(same_bits(summed[i].values(), sum)) << "round " << round << ", seed " << seed;
            EXPECT_TRUE(same_bits(gathered[i].values(), all)) << "round " << round << ", seed " << seed;
        }
    }
}

TEST_P(TransportTest, MaximumOverRanks) {
    Array<double> x(*this, 3);
    const std::vector<double> own = {rank_ + 0.5, -rank_ - 0.25, 7};
    x.write(own);
    group_->all_reduce_max(x.view, label);
    const Read<double> got = x.read();
    settle();
    EXPECT_EQ(got.values(), (std::vector<double>{size_ - 0.5, -0.25, 7}));
}

// Several at once, beside work on the device's own stream; the tensors are written just before and read just
// after.
TEST_P(TransportTest, BackgroundSumsWaitForWhatCameBefore) {
    const std::vector<std::int64_t> sizes = {5, 1000, 20000, 333};
    std::vector<std::unique_ptr<Array<float>>> tensors, scratch;
    std::vector<std::unique_ptr<AllReduce>> sums;
    for (const std::int64_t elements : sizes) {
        tensors.push_back(std::make_unique<Array<float>>(*this, elements));
        scratch.push_back(
            std::make_unique<Array<float>>(*this, group_->all_reduce_scratch_elements(elements)));
        sums.push_back(group_->make_all_reduce(tensors.back()->view, scratch.back()->view));
        EXPECT_TRUE(sums.back()->done());  // before the first start
    }
    for (int seed = 0; seed < seeds; ++seed) {
        cuda_emulation::set_seed(static_cast<std::uint64_t>(seed));
        std::vector<std::vector<float>> own;
        std::vector<Read<float>> got(sizes.size());
        for (const std::int64_t elements : sizes) own.push_back(values<float>(rank_, seed, elements));
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            tensors[i]->write(own[i]);
            sums[i]->start();
        }
        if (seed % 3 == 0) expect_sums<float>(1000);
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            if (seed % 2 || !sums[i]->done()) sums[i]->wait(label);
            got[i] = tensors[i]->read();
        }
        settle();
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            EXPECT_TRUE(sums[i]->done());
            host_->all_reduce_sum(TensorView(own[i].data(), DType::f32, {sizes[i]}), label);
            EXPECT_TRUE(same_bits(got[i].values(), own[i])) << sizes[i] << " elements, seed " << seed;
        }
    }
}

// A ring of channels, 0 to 1 to 2 …, each with several messages under way. Buffers are written, sent and
// written anew: a send that did not hold its buffer, or a receive that came too early into its own, would
// show.
TEST_P(TransportTest, MessagesComeInOrderAndBuffersAreHeld) {
    constexpr int depth = 2, messages = 9;
    const int previous = (rank_ + size_ - 1) % size_;
    std::vector<std::unique_ptr<Channel>> channels;
    for (int from = 0; from < size_; ++from)
        channels.push_back(transport_->make_channel(*host_, from, (from + 1) % size_, depth, false));
    Channel& out = *channels[static_cast<std::size_t>(rank_)];
    Channel& in = *channels[static_cast<std::size_t>(previous)];
    for (int from = 0; from < size_; ++from)
        EXPECT_EQ(channels[static_cast<std::size_t>(from)] != nullptr, from == rank_ || from == previous);
    for (int seed = 0; seed < seeds; ++seed) {
        cuda_emulation::set_seed(static_cast<std::uint64_t>(seed));
        const std::int64_t elements = seed % 3 ? 40000 : 7;  // above and below what MPI sends at once
        std::vector<std::unique_ptr<Array<float>>> sent, received;
        for (int i = 0; i < depth; ++i) {
            sent.push_back(std::make_unique<Array<float>>(*this, elements));
            received.push_back(std::make_unique<Array<float>>(*this, elements));
        }
        std::vector<int> sends(depth, -1), receives(depth, -1);
        std::vector<Read<float>> got(messages);
        const auto finish = [&](Channel& channel, int& ticket, bool poll) {
            if (ticket < 0) return;
            if (!poll || !channel.done(ticket)) channel.wait(ticket, label);
            ticket = -1;
        };
        for (int m = 0; m < messages + depth; ++m) {
            const auto slot = static_cast<std::size_t>(m % depth);
            if (m >= depth) {
                finish(in, receives[slot], m % 2 == 0);
                got[static_cast<std::size_t>(m - depth)] = received[slot]->read();
            }
            if (m >= messages) continue;
            receives[slot] = in.start_receive(received[slot]->view);
            finish(out, sends[slot], m % 3 == 0);
            sent[slot]->write(values<float>(rank_, 100 * seed + m, elements));
            sends[slot] = out.start_send(sent[slot]->view);
        }
        for (int& ticket : sends) finish(out, ticket, false);
        settle();
        for (int m = 0; m < messages; ++m)
            EXPECT_TRUE(same_bits(got[static_cast<std::size_t>(m)].values(),
                                  values<float>(previous, 100 * seed + m, elements)))
                << "message " << m << ", seed " << seed;
    }
}

TEST_P(TransportTest, SplitGroupsSumAmongThemselves) {
    const auto pair = group_->split(rank_ / 2, rank_);
    EXPECT_EQ(group_->split(rank_ == 0 ? 0 : -1, 0) != nullptr, rank_ == 0);
    Array<float> x(*this, 500);
    const std::vector<float> own = values<float>(rank_, 3, 500);
    x.write(own);
    pair->all_reduce_sum(x.view, label);
    const Read<float> read = x.read();
    settle();
    const std::vector<float> got = read.values();
    const int first = rank_ / 2 * 2;
    const std::vector<float> a = values<float>(first, 3, 500), b = values<float>(first + 1, 3, 500);
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], a[i] + b[i]) << i;
}

// run.deterministic: false leaves the order to NCCL.
TEST_P(TransportTest, SumsInAnyOrderAgreeToRounding) {
    if (GetParam() != "nccl") return;
    const auto free = make_nccl_transport(env(), *device_, kernels::cuda::sum_parts, false, part_bytes);
    const auto group = free->on_device(env().make_world({}));
    EXPECT_EQ(group->all_reduce_scratch_elements(1000), 0);
    Array<float> x(*this, 50000), y(*this, 1000);  // x is longer than a part
    const auto background = group->make_all_reduce(y.view, TensorView(nullptr, DType::f32, {0}));
    x.write(values<float>(rank_, 1, 50000));
    y.write(values<float>(rank_, 1, 1000));
    background->start();
    group->all_reduce_sum(x.view, label);
    background->wait(label);
    const Read<float> long_sum = x.read(), short_sum = y.read();
    settle();
    for (std::int64_t i = 0; i < 50000; ++i) {
        double sum = 0, magnitude = 0;
        for (int r = 0; r < size_; ++r) {
            sum += value(r, 1, i);
            magnitude += std::abs(value(r, 1, i));
        }
        ASSERT_NEAR(long_sum.data[i], sum, 1e-6 * magnitude) << i;
        if (i < 1000) {
            ASSERT_NEAR(short_sum.data[i], sum, 1e-6 * magnitude) << i;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Ways, TransportTest, ::testing::Values("nccl", "staged"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace escalier::comm
