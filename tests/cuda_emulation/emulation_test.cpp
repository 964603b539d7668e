// The emulation runs correct kernels right, whatever the order of threads.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "cuda_emulation/proof_kernels.h"
#include "cuda_emulation/random.h"

namespace escalier::test {
namespace {

class Seeds : public ::testing::TestWithParam<std::uint64_t> {
 protected:
    Seeds() { cuda_emulation::set_seed(GetParam()); }
};

TEST_P(Seeds, BarriersAndShufflesSumRows) {
    const int rows = 7, columns = 301;
    std::vector<float> x(static_cast<std::size_t>(rows) * columns), out(rows, -1);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 11);
    row_sums(x.data(), out.data(), rows, columns, nullptr);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (int row = 0; row < rows; ++row) {
        float expected = 0;
        for (int column = 0; column < columns; ++column)
            expected += static_cast<float>((row * columns + column) % 11);
        EXPECT_EQ(out[static_cast<std::size_t>(row)], expected) << "row " << row;
    }
}

TEST_P(Seeds, TensorCoresMultiplyThroughAsynchronousCopies) {
    const int m = 48, n = 40, k = 64;
    std::vector<__nv_bfloat16> a(m * k), b(k * n);
    std::vector<float> c(m * n, -1);
    for (int i = 0; i < m * k; ++i)
        a[static_cast<std::size_t>(i)] = __float2bfloat16_rn(static_cast<float>(i % 7 - 3));
    for (int i = 0; i < k * n; ++i)
        b[static_cast<std::size_t>(i)] = __float2bfloat16_rn(static_cast<float>(i % 5 - 2));
    multiply_bf16(a.data(), b.data(), c.data(), m, n, k, nullptr);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (int row = 0; row < m; ++row)
        for (int column = 0; column < n; ++column) {
            float expected = 0;
            for (int i = 0; i < k; ++i)
                expected +=
                    static_cast<float>((row * k + i) % 7 - 3) * static_cast<float>((i * n + column) % 5 - 2);
            ASSERT_EQ(c[static_cast<std::size_t>(row * n + column)], expected) << row << ", " << column;
        }
}

INSTANTIATE_TEST_SUITE_P(Order, Seeds, ::testing::Values(0, 1, 2, 3));

}  // namespace
}  // namespace escalier::test
