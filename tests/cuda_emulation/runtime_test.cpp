// The stand-in for the CUDA runtime: order that streams and events ask for is kept, order that nothing asks
// for is not; captures and errors are as CUDA documents them.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <thread>
#include <vector>

#include "cuda_emulation/random.h"

namespace escalier::test {
namespace {

#define OK(call) ASSERT_EQ(call, cudaSuccess)

struct Buffers {  // of one int each
    Buffers() {
        for (int*& device : on_device) EXPECT_EQ(cudaMalloc(&device, sizeof(int)), cudaSuccess);
        for (int*& host : on_host) EXPECT_EQ(cudaMallocHost(&host, sizeof(int)), cudaSuccess);
        for (cudaStream_t& stream : streams)
            EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
        EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    }
    ~Buffers() {
        for (int* device : on_device) cudaFree(device);
        for (int* host : on_host) cudaFreeHost(host);
        for (cudaStream_t stream : streams) cudaStreamDestroy(stream);
        cudaEventDestroy(event);
        cudaGetLastError();
    }
    std::array<int*, 3> on_device{};
    std::array<int*, 3> on_host{};
    std::array<cudaStream_t, 2> streams{};
    cudaEvent_t event{};
};

void set_byte(int* device, int value, cudaStream_t stream) {
    EXPECT_EQ(cudaMemsetAsync(device, value, sizeof(int), stream), cudaSuccess);
}
constexpr int all_bytes(int value) {
    return value * 0x01010101;
}

// Runs `scenario` with many seeds; the set of what it gave.
template <class Scenario>
std::set<int> outcomes(Scenario scenario) {
    std::set<int> seen;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        cuda_emulation::set_seed(seed);
        seen.insert(scenario());
    }
    return seen;
}

// Stream 0 writes, stream 1 copies to the host.
int write_then_read(Buffers& b, bool with_event) {
    set_byte(b.on_device[0], 1, b.streams[0]);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    set_byte(b.on_device[0], 2, b.streams[0]);
    if (with_event) {
        EXPECT_EQ(cudaEventRecord(b.event, b.streams[0]), cudaSuccess);
        EXPECT_EQ(cudaStreamWaitEvent(b.streams[1], b.event, 0), cudaSuccess);
    }
    EXPECT_EQ(
        cudaMemcpyAsync(b.on_host[0], b.on_device[0], sizeof(int), cudaMemcpyDeviceToHost, b.streams[1]),
        cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(b.streams[1]), cudaSuccess);
    const int read = *b.on_host[0];
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return read;
}

TEST(Streams, EventOrdersTwoStreams) {
    Buffers b;
    EXPECT_EQ(outcomes([&] { return write_then_read(b, true); }), std::set<int>{all_bytes(2)});
}
TEST(Streams, MissingEventShows) {
    Buffers b;
    EXPECT_EQ(outcomes([&] { return write_then_read(b, false); }),
              (std::set<int>{all_bytes(1), all_bytes(2)}));
}

TEST(Streams, HostThatDoesNotWaitReadsOldValues) {
    Buffers b;
    const std::set<int> seen = outcomes([&] {
        *b.on_host[0] = 7;
        set_byte(b.on_device[0], 1, b.streams[0]);
        cudaMemcpyAsync(b.on_host[0], b.on_device[0], sizeof(int), cudaMemcpyDeviceToHost, b.streams[0]);
        const int read = *b.on_host[0];
        EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
        return read;
    });
    EXPECT_TRUE(seen.contains(7));
}

TEST(Streams, PinnedSourceIsReadLateAndPageableOneAtOnce) {
    Buffers b;
    const auto upload = [&](int* source) {
        *source = 1;
        cudaMemcpyAsync(b.on_device[0], source, sizeof(int), cudaMemcpyHostToDevice, b.streams[0]);
        *source = 2;
        int read = 0;  // pageable: the copy is complete on return
        cudaMemcpyAsync(&read, b.on_device[0], sizeof(int), cudaMemcpyDeviceToHost, b.streams[0]);
        return read;
    };
    int pageable = 0;
    EXPECT_TRUE(outcomes([&] { return upload(b.on_host[0]); }).contains(2));
    EXPECT_EQ(outcomes([&] { return upload(&pageable); }), std::set<int>{1});
}

TEST(Streams, QueriesMakeProgressInTheEnd) {
    Buffers b;
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        cuda_emulation::set_seed(seed);
        set_byte(b.on_device[0], 1, b.streams[0]);
        OK(cudaEventRecord(b.event, b.streams[0]));
        int asked = 0;
        while (cudaEventQuery(b.event) == cudaErrorNotReady) ASSERT_LT(++asked, 1000);
        EXPECT_EQ(cudaStreamQuery(b.streams[0]), cudaSuccess);
    }
    cudaGetLastError();
}

TEST(Streams, DefaultStreamIsOrderedWithBlockingStreams) {
    Buffers b;
    cudaStream_t blocking;
    OK(cudaStreamCreate(&blocking));
    EXPECT_EQ(outcomes([&] {
                  set_byte(b.on_device[0], 1, blocking);
                  set_byte(b.on_device[0], 2, nullptr);
                  set_byte(b.on_device[0], 3, blocking);
                  int read = 0;
                  EXPECT_EQ(cudaMemcpy(&read, b.on_device[0], sizeof read, cudaMemcpyDeviceToHost),
                            cudaSuccess);
                  return read;
              }),
              std::set<int>{all_bytes(3)});
    OK(cudaStreamDestroy(blocking));
}

TEST(Streams, HostFunctionsRunInOrderAndMayCallBack) {
    Buffers b;
    static int value;
    value = 0;
    OK(cudaLaunchHostFunc(
        b.streams[0], [](void*) { value = value * 10 + 1; }, nullptr));
    OK(cudaLaunchHostFunc(
        b.streams[0],
        [](void*) {
            std::thread([] {
                int n;
                cudaGetDeviceCount(&n);
                value = value * 10 + n;
            }).join();
        },
        nullptr));
    OK(cudaStreamSynchronize(b.streams[0]));
    EXPECT_EQ(value, 18);
}

TEST(Memory, IsPoisonedAndCopiesAreChecked) {
    Buffers b;
    float* memory;
    OK(cudaMalloc(&memory, 4 * sizeof(float)));
    std::array<float, 4> host{};
    OK(cudaMemcpy(host.data(), memory, sizeof host, cudaMemcpyDeviceToHost));
    for (const float x : host) EXPECT_NE(x, x) << "new device memory is not a number";
    EXPECT_EQ(cudaMemcpy(memory + 1, host.data(), sizeof host, cudaMemcpyHostToDevice),
              cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemcpy(host.data(), host.data(), sizeof host, cudaMemcpyDeviceToHost),
              cudaErrorInvalidValue);
    EXPECT_EQ(cudaFree(memory + 1), cudaErrorInvalidValue);
    OK(cudaFree(memory));
    EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
    void* huge = nullptr;
    EXPECT_EQ(cudaMalloc(&huge, std::size_t{1} << 50), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(Devices, StreamAndEventBelongToTheirDevice) {
    Buffers b;
    OK(cudaSetDevice(1));
    EXPECT_EQ(cudaEventRecord(b.event, nullptr), cudaErrorInvalidResourceHandle) << "event of device 0";
    OK(cudaSetDevice(0));
    std::thread([] {
        int device = -1;
        EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
        EXPECT_EQ(device, 0) << "a new thread starts with device 0";
    }).join();
    EXPECT_EQ(cudaSetDevice(8), cudaErrorInvalidDevice);
    cudaGetLastError();
}

// Two streams that fork and join, captured: d2 = d0 + later d1.
cudaGraphExec_t capture_fork(Buffers& b) {
    cudaEvent_t joined;
    EXPECT_EQ(cudaEventCreate(&joined), cudaSuccess);
    EXPECT_EQ(cudaStreamBeginCapture(b.streams[0], cudaStreamCaptureModeThreadLocal), cudaSuccess);
    cudaMemcpyAsync(b.on_device[0], b.on_host[0], sizeof(int), cudaMemcpyHostToDevice, b.streams[0]);
    cudaEventRecord(b.event, b.streams[0]);
    EXPECT_EQ(cudaStreamWaitEvent(b.streams[1], b.event, 0), cudaSuccess);
    cudaMemcpyAsync(b.on_device[1], b.on_device[0], sizeof(int), cudaMemcpyDeviceToDevice, b.streams[1]);
    cudaEventRecord(joined, b.streams[1]);
    EXPECT_EQ(cudaStreamWaitEvent(b.streams[0], joined, 0), cudaSuccess);
    cudaMemcpyAsync(b.on_host[1], b.on_device[1], sizeof(int), cudaMemcpyDeviceToHost, b.streams[0]);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(b.streams[0], &graph), cudaSuccess);
    cudaGraphExec_t executable = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    cudaGraphDestroy(graph);
    cudaEventDestroy(joined);
    return executable;
}

TEST(Graphs, ReplayWithTheValuesOfTheMoment) {
    Buffers b;
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        cuda_emulation::set_seed(seed);
        *b.on_host[0] = *b.on_host[1] = -1;
        cudaGraphExec_t graph = capture_fork(b);
        EXPECT_EQ(*b.on_host[1], -1) << "a capture runs nothing";
        for (int value = 1; value <= 3; ++value) {
            *b.on_host[0] = value;
            OK(cudaGraphLaunch(graph, b.streams[0]));
            OK(cudaStreamSynchronize(b.streams[0]));
            EXPECT_EQ(*b.on_host[1], value);
        }
        OK(cudaGraphExecDestroy(graph));
    }
}

TEST(Graphs, CapturesRefuseWhatCudaRefuses) {
    Buffers b;
    cudaGraph_t graph = nullptr;
    OK(cudaStreamBeginCapture(b.streams[0], cudaStreamCaptureModeGlobal));
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(cudaStreamEndCapture(b.streams[0], &graph), cudaErrorStreamCaptureInvalidated);

    OK(cudaStreamBeginCapture(b.streams[0], cudaStreamCaptureModeThreadLocal));
    EXPECT_EQ(cudaStreamSynchronize(b.streams[0]), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(cudaStreamEndCapture(b.streams[0], &graph), cudaErrorStreamCaptureInvalidated);

    OK(cudaEventRecord(b.event, b.streams[1]));
    OK(cudaStreamBeginCapture(b.streams[0], cudaStreamCaptureModeThreadLocal));
    EXPECT_EQ(cudaStreamWaitEvent(b.streams[0], b.event, 0), cudaErrorStreamCaptureIsolation);
    EXPECT_EQ(cudaStreamEndCapture(b.streams[0], &graph), cudaErrorStreamCaptureInvalidated);

    OK(cudaStreamBeginCapture(b.streams[0], cudaStreamCaptureModeThreadLocal));
    OK(cudaEventRecord(b.event, b.streams[0]));
    OK(cudaStreamWaitEvent(b.streams[1], b.event, 0));
    set_byte(b.on_device[0], 1, b.streams[1]);
    EXPECT_EQ(cudaStreamEndCapture(b.streams[0], &graph), cudaErrorStreamCaptureUnjoined);
    cudaGetLastError();
}

}  // namespace
}  // namespace escalier::test
