// The tester tested: what is planted is found, and the same kernel without it is right.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/error.h"
#include "cuda_emulation/planted_kernels.h"
#include "cuda_emulation/proof_kernels.h"
#include "cuda_emulation/random.h"

namespace escalier::test {
namespace {

struct Memory {
    Memory() {
        std::vector<float> values;
        for (int i = 0; i < 3 * planted_threads; ++i) values.push_back(static_cast<float>(i));
        EXPECT_EQ(cudaMalloc(&in, values.size() * sizeof(float)), cudaSuccess);
        EXPECT_EQ(cudaMalloc(&out, planted_threads * sizeof(float)), cudaSuccess);
        EXPECT_EQ(cudaMemcpy(in, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice),
                  cudaSuccess);
    }
    ~Memory() {
        cudaFree(in);
        cudaFree(out);
    }
    float* in = nullptr;
    float* out = nullptr;
};

bool right(const Plant& plant, bool planted, Memory& memory) {
    EXPECT_EQ(cudaMemset(memory.out, 0xFF, planted_threads * sizeof(float)), cudaSuccess);
    plant.launch(planted, memory.out, memory.in, nullptr);
    std::vector<float> out(planted_threads);
    EXPECT_EQ(cudaMemcpy(out.data(), memory.out, out.size() * sizeof(float), cudaMemcpyDeviceToHost),
              cudaSuccess);
    for (int i = 0; i < planted_threads; ++i)
        if (out[static_cast<std::size_t>(i)] != static_cast<float>(i)) return false;
    return true;
}

class Orders : public ::testing::TestWithParam<Plant> {};

TEST_P(Orders, AreShuffledUntilTheFaultShows) {
    Memory memory;
    bool seen = false;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        cuda_emulation::set_seed(seed);
        // First, for under the sanitizers named shared memory keeps the right values of a run before.
        seen = seen || !right(GetParam(), true, memory);
        EXPECT_TRUE(right(GetParam(), false, memory)) << "seed " << seed;
    }
    EXPECT_TRUE(seen);
}
INSTANTIATE_TEST_SUITE_P(Planted, Orders, ::testing::ValuesIn(planted_orders()));

class Misuses : public ::testing::TestWithParam<Misuse> {};

void run(const Misuse& misuse) {
    Memory memory;
    misuse.launch(memory.out, memory.in, nullptr);
    cudaDeviceSynchronize();
}

TEST_P(Misuses, EndWith70AndAReport) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
        cuda_emulation::set_seed(seed);
        EXPECT_EXIT(run(GetParam()), ::testing::ExitedWithCode(70), GetParam().message) << "seed " << seed;
    }
}
INSTANTIATE_TEST_SUITE_P(Planted, Misuses, ::testing::ValuesIn(planted_misuses()));

#if defined(__SANITIZE_ADDRESS__)
class Overflows : public ::testing::TestWithParam<Misuse> {};

TEST_P(Overflows, AreFoundByTheAddressSanitizer) {
    EXPECT_DEATH(run(GetParam()), GetParam().message);
}
INSTANTIATE_TEST_SUITE_P(Planted, Overflows, ::testing::ValuesIn(planted_overflows()));
#endif

TEST(Report, NamesLaunchBlockThreadAndWaitingThreads) {
    cuda_emulation::set_seed(0);
    EXPECT_EXIT(
        run(planted_misuses()[2]), ::testing::ExitedWithCode(70),
        "planted_kernels.cu:[0-9]+, block \\(0, 0, 0\\), thread \\([0-9]+, 0, 0\\)\n.*thread 0 waits at the "
        "barrier of line [0-9]+");
}

TEST(Launches, AreRefusedAsCudaRefusesThem) {
    try {
        row_sums(nullptr, nullptr, 0, 1, nullptr);
        FAIL() << "a grid without blocks";
    } catch (const DeviceError& error) {
        EXPECT_NE(std::string(error.what()).find("kernel launch failed: cudaErrorInvalidConfiguration (9)"),
                  std::string::npos)
            << error.what();
        EXPECT_NE(std::string(error.what()).find("proof_kernels.cu:"), std::string::npos) << error.what();
    }
    EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
    cudaStream_t stream;
    EXPECT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_THROW(row_sums(nullptr, nullptr, 1, 1, stream), DeviceError) << "a stream of another device";
    cudaStreamDestroy(stream);
    cudaGetLastError();
}

}  // namespace
}  // namespace escalier::test
