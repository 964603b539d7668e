// The GPU as a device: memory, copies, marks, recordings; and which rank gets which GPU.
#include "device/cuda_device.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "core/clock.h"
#include "core/error.h"
#include "cuda_emulation/random.h"
#include "device/cuda_devices.h"
#include "device/mirror.h"
#include "kernels/common/cuda_twins.h"

namespace escalier::device {
namespace {

// Sets an environment variable for as long as it lives.
class Variable {
 public:
    Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
    ~Variable() { unsetenv(name_); }

 private:
    const char* name_;
};

template <class Action>
std::string message_of(Action&& action) {
    try {
        action();
    } catch (const DeviceError& error) {
        return error.what();
    }
    return "no DeviceError";
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST(CudaDevice, MemoryIsZeroAndCopiesAreInOrder) {
    CudaDevice device(0, true);
    EXPECT_FALSE(device.is_host());
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
        cuda_emulation::set_seed(seed);
        Arenas arenas = Arenas::measuring();
        Mirror::take(arenas, device, DType::f32, {1000});
        Arenas real = Arenas::allocated(arenas, device.allocator(), device.host_allocator());
        const Mirror mirror = Mirror::take(real, device, DType::f32, {1000});
        float* host = mirror.host.as<float>();
        mirror.download(device);
        device.synchronize();
        for (int i = 0; i < 1000; ++i) ASSERT_EQ(host[i], 0);
        for (int i = 0; i < 1000; ++i) host[i] = static_cast<float>(i);
        mirror.upload(device);
        std::vector<float> back(1000, -1);
        device.copy_to_host(back.data(), mirror.device.data(), 4000);  // after what is queued
        EXPECT_EQ(back[999], 999);
        EXPECT_TRUE(device.idle());
    }
    cuda_emulation::set_seed(1);
}

TEST(CudaDevice, WantOfMemoryNamesArenaBytesAndWhatIsFree) {
    const Variable small("ESCALIER_CUDA_MEMORY", "100000000");
    CudaDevice device(0, true);
    const std::string said =
        message_of([&] { device.allocator().allocate(std::size_t{90} << 20, "activations"); });
    EXPECT_TRUE(contains(said, "arena activations: cannot allocate 94371840 bytes on GPU 0")) << said;
    EXPECT_TRUE(contains(said, "are free")) << said;
    EXPECT_TRUE(contains(said, "train.micro_batch")) << said;
    void* memory = device.allocator().allocate(1024, "small");  // the error is forgotten
    device.allocator().free(memory, 1024);
}

TEST(CudaDevice, ErrorsNameCallCodeAndPlace) {
    const std::string said = message_of([] { CudaDevice(99, true); });
    EXPECT_TRUE(contains(said, "cudaSetDevice failed: cudaErrorInvalidDevice (101)")) << said;
    EXPECT_TRUE(contains(said, "cuda_device.cpp:")) << said;
}

// A busy machine may take the processor away while the clocks are held against each other.
TEST(CudaDevice, MarksAreOnTheHostsClock) {
    constexpr double slack = 0.02;
    CudaDevice device(0, true);
    for (int step = 0; step < 3; ++step) {
        const double before = now_seconds();
        const int first = device.mark(), second = device.mark();
        device.synchronize();
        const double after = now_seconds();
        EXPECT_GE(device.seconds(first), before - slack);
        EXPECT_LE(device.seconds(first), device.seconds(second));
        EXPECT_LE(device.seconds(second), after + slack);
        device.clear_marks();
        EXPECT_FALSE(device.progressed());
        EXPECT_EQ(device.mark(), 0);
        device.synchronize();
        EXPECT_TRUE(device.progressed());
        EXPECT_FALSE(device.progressed());
        device.clear_marks();
    }
}

TEST(CudaDevice, ARecordingRunsAsOftenAsItIsLaunchedAndNotBefore) {
    CudaDevice device(0, true);
    ComputePool pool(1);
    const OpContext op = device.op_context(pool, nullptr, 0);
    void* memory = device.allocator().allocate(400, "a test");
    void* term = device.allocator().allocate(400, "a test");
    const TensorView sum(memory, DType::f32, {100}), one(term, DType::f32, {100});
    kernels::cuda::fill(op, one, 1.0f);
    const auto graph = device.capture([&] { kernels::cuda::add(op, sum, one); });
    ASSERT_NE(graph, nullptr);
    for (int i = 0; i < 3; ++i) graph->launch();
    std::vector<float> back(100);
    device.copy_to_host(back.data(), memory, 400);
    EXPECT_EQ(back, std::vector<float>(100, 3.0f));
    struct Stop {};
    EXPECT_THROW(device.capture([] { throw Stop(); }), Stop);
    graph->launch();  // the stream records no longer
    device.copy_to_host(back.data(), memory, 400);
    EXPECT_EQ(back[7], 4.0f);
    device.allocator().free(memory, 400);
    device.allocator().free(term, 400);
}

TEST(CudaDevices, ProblemsSayWhatIsMissing) {
    EXPECT_EQ(cuda_problem(), "");
    {
        const Variable none("ESCALIER_CUDA_DEVICES", "0");
        EXPECT_TRUE(contains(cuda_problem(), "the driver shows no GPU")) << cuda_problem();
    }
    {
        const Variable none("ESCALIER_CUDA_DEVICES", "-1");
        EXPECT_TRUE(contains(cuda_problem(), "cudaErrorInsufficientDriver (35)")) << cuda_problem();
    }
    {
        const Variable hidden("CUDA_VISIBLE_DEVICES", "");
        EXPECT_TRUE(contains(cuda_problem(), "CUDA_VISIBLE_DEVICES is \"\"")) << cuda_problem();
    }
    const Variable two("CUDA_VISIBLE_DEVICES", "3,1");
    EXPECT_EQ(visible_devices(), 2);
    EXPECT_NE(device_uuid(0), device_uuid(1));
    EXPECT_EQ(device_uuid(0).size(), std::string("GPU-00000000-0000-0000-0000-000000000000").size());
}

TEST(CudaDevices, RanksTakeVisibleDevicesInOrder) {
    EXPECT_EQ(device_of_rank(3, 8), 3);
    EXPECT_EQ(device_of_rank(3, 2), 1);
    EXPECT_EQ(device_of_rank(5, 1), 0);  // each rank may have been given one of its own
}

TEST(CudaDevices, SharedOnesAreNamedWithTheirRanks) {
    const std::vector<DeviceChoice> apart = {
        {"a", "GPU-1", 0, 2}, {"a", "GPU-2", 1, 2}, {"b", "GPU-3", 0, 2}};
    EXPECT_EQ(most_sharers(apart), 1);
    EXPECT_EQ(distinct_devices(apart), 3);
    EXPECT_EQ(sharing_problem(apart), "");
    std::vector<DeviceChoice> together = apart;
    together.push_back({"a", "GPU-2", 1, 2});
    EXPECT_EQ(most_sharers(together), 2);
    EXPECT_EQ(distinct_devices(together), 3);
    const std::string said = sharing_problem(together);
    EXPECT_TRUE(contains(said, "ranks 1 and 3 share GPU-2 (host a, where rank 1 sees 2)")) << said;
    EXPECT_TRUE(contains(said, "run.share_gpu: true")) << said;
    std::vector<DeviceChoice> many(20, DeviceChoice{"a", "GPU-1", 0, 1});
    EXPECT_TRUE(contains(sharing_problem(many), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 12 more share"));
}

}  // namespace
}  // namespace escalier::device
