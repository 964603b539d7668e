// The stand-in for NCCL with four ranks, one device each.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <nccl.h>

#include <cstring>
#include <vector>

#include "cuda_emulation/random.h"
#include "tests/harness/multirank_main.h"

namespace escalier::test {
namespace {

#define CUDA_OK(call) ASSERT_EQ(call, cudaSuccess)
#define NCCL_OK(call) ASSERT_EQ(call, ncclSuccess)

int world_rank() {
    return env().world().rank();
}
int world_size() {
    return env().world().size();
}
void barrier() {
    env().world().barrier("a test");
}

ncclResult_t connect(ncclComm_t* comm, int device) {
    EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
    ncclUniqueId id;
    if (world_rank() == 0) {
        EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    }
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    return ncclCommInitRank(comm, world_size(), id, world_rank());
}

template <class T>
class DeviceArray {
 public:
    explicit DeviceArray(std::size_t elements) : elements_(elements) {
        EXPECT_EQ(cudaMalloc(&data_, elements * sizeof(T)), cudaSuccess);
    }
    ~DeviceArray() { cudaFree(data_); }
    T* data() const { return static_cast<T*>(data_); }
    void set(const std::vector<T>& values) {
        EXPECT_EQ(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
                  cudaSuccess);
    }
    std::vector<T> get() const {
        std::vector<T> values(elements_);
        EXPECT_EQ(cudaMemcpy(values.data(), data_, elements_ * sizeof(T), cudaMemcpyDeviceToHost),
                  cudaSuccess);
        return values;
    }

 private:
    std::size_t elements_;
    void* data_ = nullptr;
};

class Nccl : public ::testing::Test {
 protected:
    void SetUp() override {
        cuda_emulation::set_seed(17 * static_cast<std::uint64_t>(world_rank()) + 3);
        ASSERT_EQ(connect(&comm, world_rank()), ncclSuccess);
        for (cudaStream_t& stream : streams)
            CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        CUDA_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    }
    void TearDown() override {
        NCCL_OK(ncclCommDestroy(comm));
        for (cudaStream_t stream : streams) cudaStreamDestroy(stream);
        cudaEventDestroy(event);
        cudaGetLastError();
    }
    void finish() { CUDA_OK(cudaDeviceSynchronize()); }

    ncclComm_t comm = nullptr;
    cudaStream_t streams[2]{};
    cudaEvent_t event{};
};

TEST_F(Nccl, CollectivesGiveTheirSums) {
    const int n = world_size(), rank = world_rank(), count = 130;
    std::vector<float> mine;
    for (int i = 0; i < count * n; ++i) mine.push_back(static_cast<float>(rank * 1000 + i));
    const auto sum_at = [&](int i) { return static_cast<float>(1000 * n * (n - 1) / 2 + n * i); };
    DeviceArray<float> all(mine.size()), part(count);
    all.set(mine);
    NCCL_OK(ncclReduceScatter(all.data(), part.data(), count, ncclFloat, ncclSum, comm, streams[0]));
    finish();
    for (int i = 0; i < count; ++i)
        ASSERT_EQ(part.get()[static_cast<std::size_t>(i)], sum_at(rank * count + i));

    NCCL_OK(ncclAllReduce(all.data(), all.data(), all.get().size(), ncclFloat, ncclSum, comm, streams[0]));
    finish();
    for (int i = 0; i < count * n; ++i) ASSERT_EQ(all.get()[static_cast<std::size_t>(i)], sum_at(i));

    all.set(mine);  // in place
    NCCL_OK(ncclAllGather(all.data() + rank * count, all.data(), count, ncclFloat, comm, streams[0]));
    finish();
    for (int i = 0; i < count * n; ++i)
        ASSERT_EQ(all.get()[static_cast<std::size_t>(i)], static_cast<float>(i / count * 1000 + i));

    part.set(std::vector<float>(count, static_cast<float>(rank)));
    NCCL_OK(ncclBroadcast(part.data(), part.data(), count, ncclFloat, 1, comm, streams[0]));
    finish();
    EXPECT_EQ(part.get(), std::vector<float>(count, 1.0f));

    DeviceArray<__nv_bfloat16> narrow(3);
    narrow.set(std::vector<__nv_bfloat16>(3, __float2bfloat16_rn(0.5f)));
    NCCL_OK(ncclAllReduce(narrow.data(), narrow.data(), 3, ncclBfloat16, ncclSum, comm, streams[0]));
    finish();
    EXPECT_EQ(__bfloat162float(narrow.get()[2]), 0.5f * static_cast<float>(n));
}

TEST_F(Nccl, GroupedSendsAndReceivesGoRound) {
    const int n = world_size(), rank = world_rank();
    DeviceArray<float> out(4), in(4);
    out.set(std::vector<float>(4, static_cast<float>(rank)));
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclSend(out.data(), 4, ncclFloat, (rank + 1) % n, comm, streams[0]));
    NCCL_OK(ncclRecv(in.data(), 4, ncclFloat, (rank + n - 1) % n, comm, streams[0]));
    NCCL_OK(ncclGroupEnd());
    finish();
    EXPECT_EQ(in.get(), std::vector<float>(4, static_cast<float>((rank + n - 1) % n)));
}

TEST_F(Nccl, SendWaitsForItsReceive) {
    DeviceArray<float> data(1);
    if (world_rank() == 0) {
        NCCL_OK(ncclSend(data.data(), 1, ncclFloat, 1, comm, streams[0]));
        CUDA_OK(cudaEventRecord(event, streams[0]));
        for (int i = 0; i < 200; ++i) ASSERT_EQ(cudaEventQuery(event), cudaErrorNotReady);
    }
    barrier();
    if (world_rank() == 1) {
        NCCL_OK(ncclRecv(data.data(), 1, ncclFloat, 0, comm, streams[0]));
    }
    finish();
}

// Rank 0 waits for the device, the others in MPI: their queued work must go on all the same.
TEST_F(Nccl, WorkGoesOnWhileTheHostIsElsewhere) {
    DeviceArray<float> data(1);
    data.set({1.0f});
    NCCL_OK(ncclAllReduce(data.data(), data.data(), 1, ncclFloat, ncclSum, comm, streams[0]));
    if (world_rank() == 0) finish();
    MPI_Barrier(MPI_COMM_WORLD);
    finish();
    EXPECT_EQ(data.get()[0], static_cast<float>(world_size()));
}

// Two communicators on two streams, issued in the opposite order by odd ranks; and many operations in flight.
TEST_F(Nccl, CommunicatorsDoNotHoldEachOtherUp) {
    ncclComm_t other = nullptr;
    NCCL_OK(connect(&other, world_rank()));
    DeviceArray<float> a(1), b(1);
    for (int round = 0; round < 20; ++round) {
        a.set({1.0f});
        b.set({2.0f});
        for (int i = 0; i < 2; ++i) {
            const bool first = (i + world_rank()) % 2 == 0;
            float* data = first ? a.data() : b.data();
            NCCL_OK(ncclAllReduce(data, data, 1, ncclFloat, ncclSum, first ? comm : other,
                                  streams[first ? 0 : 1]));
        }
        finish();
        EXPECT_EQ(a.get()[0], 1.0f * static_cast<float>(world_size()));
        EXPECT_EQ(b.get()[0], 2.0f * static_cast<float>(world_size()));
    }
    NCCL_OK(ncclCommDestroy(other));
}

// The values that rank 1 receives of what rank 0 first wrote on another stream.
std::vector<bool> received_in_time(ncclComm_t comm, const cudaStream_t (&streams)[2], cudaEvent_t event,
                                   bool ordered) {
    std::vector<bool> right;
    DeviceArray<unsigned> data(1);
    for (int round = 0; round < 20; ++round) {
        EXPECT_EQ(cudaMemsetAsync(data.data(), 0, 4, streams[0]), cudaSuccess);
        EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
        if (world_rank() == 0) {
            EXPECT_EQ(cudaMemsetAsync(data.data(), 1, 4, streams[0]), cudaSuccess);
            if (ordered) {
                EXPECT_EQ(cudaEventRecord(event, streams[0]), cudaSuccess);
                EXPECT_EQ(cudaStreamWaitEvent(streams[1], event, 0), cudaSuccess);
            }
            EXPECT_EQ(ncclSend(data.data(), 1, ncclUint8, 1, comm, streams[1]), ncclSuccess);
        } else if (world_rank() == 1) {
            EXPECT_EQ(ncclRecv(data.data(), 1, ncclUint8, 0, comm, streams[1]), ncclSuccess);
        }
        EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
        if (world_rank() == 1) right.push_back(data.get()[0] == 1);
    }
    return right;
}

TEST_F(Nccl, MissingEventShowsAtTheReceiver) {
    const std::vector<bool> ordered = received_in_time(comm, streams, event, true);
    const std::vector<bool> unordered = received_in_time(comm, streams, event, false);
    if (world_rank() != 1) return;
    EXPECT_EQ(std::count(ordered.begin(), ordered.end(), false), 0);
    EXPECT_GT(std::count(unordered.begin(), unordered.end(), false), 0);
}

TEST_F(Nccl, ArgumentsAreChecked) {
    float on_host = 0;
    DeviceArray<float> data(2);
    EXPECT_EQ(ncclAllReduce(&on_host, &on_host, 1, ncclFloat, ncclSum, comm, streams[0]),
              ncclInvalidArgument);
    EXPECT_EQ(ncclSend(data.data(), 3, ncclFloat, 0, comm, streams[0]), ncclInvalidArgument);
    EXPECT_EQ(ncclSend(data.data(), 1, ncclFloat, world_size(), comm, streams[0]), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
}

TEST_F(Nccl, AbortEndsWorkThatWaits) {
    ncclComm_t other = nullptr;
    NCCL_OK(connect(&other, world_rank()));
    DeviceArray<float> data(1);
    if (world_rank() == 0) {
        NCCL_OK(ncclRecv(data.data(), 1, ncclFloat, 1, other, streams[0]));
    }
    NCCL_OK(ncclCommAbort(other));
    finish();
}

TEST(NcclDevices, TwoRanksOnOneDeviceAreRefused) {
    ncclComm_t comm = nullptr;
    EXPECT_EQ(connect(&comm, world_rank() / 2), ncclInvalidUsage);
    EXPECT_EQ(comm, nullptr);
    EXPECT_NE(std::strstr(ncclGetLastError(nullptr), "Duplicate GPU detected"), nullptr);
}

}  // namespace
}  // namespace escalier::test
