// CUDA sweeps and sums over whole tensors against their formulas and the CPU twins.
#include "cuda_fixture.h"
#include "kernels/common/cuda_scratch.h"
#include "kernels/common/cuda_twins.h"

namespace escalier::kernels::test {
namespace {

class CudaSweepTest : public testing::TestWithParam<std::tuple<DType, std::int64_t>> {
 protected:
    const DType dtype = std::get<0>(GetParam());
    const std::int64_t n = std::get<1>(GetParam());
    const Shape shape{n};
    const Floats a = stored(dtype, random_floats(n, 1)), b = stored(dtype, random_floats(n, 2));
};

TEST_P(CudaSweepTest, FillCopyAdd) {
    const CudaRunner runner;
    const DeviceTensor x(dtype, shape), from(dtype, shape, a), more(dtype, shape, b);
    cuda::fill(runner, x.view(), 2.7f);
    EXPECT_EQ(x.values(), stored(dtype, Floats(static_cast<std::size_t>(n), 2.7f)));
    cuda::copy(runner, x.view(), from.view());
    expect_same_bits(x.values(), a, "copy");
    cuda::add(runner, x.view(), more.view());
    Floats sum = a;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
    expect_same_bits(x.values(), stored(dtype, sum), "sum");
}

TEST_P(CudaSweepTest, CopyConverts) {
    const CudaRunner runner;
    const DType other = dtype == DType::f32 ? DType::bf16 : DType::f32;
    Floats values = a;
    values.front() = std::numeric_limits<float>::infinity();
    values.back() = -0.0f;
    const DeviceTensor from(dtype, shape, values), to(other, shape);
    cuda::copy(runner, to.view(), from.view());
    expect_same_bits(to.values(), stored(other, values), "converted");
}

TEST_P(CudaSweepTest, PartsAreSummedInOrderAndRoundedOnce) {
    for (const std::int64_t count : {1, 2, 5}) {
        const Floats values = stored(dtype, random_floats(count * n, 3, 10.0f));
        Floats sum(values.begin(), values.begin() + n);
        for (std::int64_t part = 1; part < count; ++part)
            for (std::int64_t i = 0; i < n; ++i)
                sum[static_cast<std::size_t>(i)] += values[static_cast<std::size_t>(part * n + i)];
        const DeviceTensor parts(dtype, Shape{count, n}, values), out(dtype, shape);
        cuda::sum_parts(CudaRunner(), out.view(), parts.view());
        expect_same_bits(out.values(), stored(dtype, sum), "sum of parts");
    }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CudaSweepTest,
                         testing::Combine(testing::Values(DType::f32, DType::bf16),
                                          testing::Values(1, 3, 16, 65, 4096, 16385, 65536)),
                         [](const auto& info) {
                             return std::string(name_of(std::get<0>(info.param))) + "_" +
                                    std::to_string(std::get<1>(info.param));
                         });

TEST(CudaCopyTest, MovesOtherElementTypes) {
    const std::vector<int> ids = {5, -1, 1 << 30};
    const DeviceTensor from(Shape{3}, ids), to(Shape{3}, std::vector<int>(3));
    cuda::copy(CudaRunner(), to.view(), from.view());
    EXPECT_EQ(to.elements<int>(), ids);
    const DeviceTensor floats(DType::f32, Shape{3});
    EXPECT_THROW(cuda::copy(CudaRunner(), floats.view(), from.view()), InternalError);
}

class CudaResidualTest : public testing::TestWithParam<std::tuple<DType, std::int64_t, std::int64_t>> {};

TEST_P(CudaResidualTest, AddsInPlaceAndWithBias) {
    const auto [dtype, rows, columns] = GetParam();
    const Shape matrix{rows, columns};
    const Floats residual = stored(dtype, random_floats(rows * columns, 1));
    const Floats delta = stored(dtype, random_floats(rows * columns, 2));
    const Floats bias = random_floats(columns, 3);
    const DeviceTensor floats(DType::f32, {columns}, bias), as_stored(dtype, {columns}, bias);
    for (const DeviceTensor* extra : {static_cast<const DeviceTensor*>(nullptr), &floats, &as_stored}) {
        const Floats own_bias = extra ? extra->values() : Floats();
        Floats expected(residual.size());
        for (std::size_t i = 0; i < expected.size(); ++i)
            expected[i] =
                residual[i] + (extra ? delta[i] + own_bias[i % static_cast<std::size_t>(columns)] : delta[i]);
        const DeviceTensor a(dtype, matrix, residual), b(dtype, matrix, delta), sum(dtype, matrix);
        const TensorView view = extra ? extra->view() : TensorView();
        cuda::residual_add(CudaRunner(), sum.view(), a.view(), b.view(), view);
        expect_same_bits(sum.values(), stored(dtype, expected), "sum");
        cuda::residual_add(CudaRunner(), b.view(), a.view(), b.view(), view);
        expect_same_bits(b.values(), stored(dtype, expected), "sum over delta");
        const DeviceTensor again(dtype, matrix, delta);
        cuda::residual_add(CudaRunner(), a.view(), a.view(), again.view(), view);
        expect_same_bits(a.values(), stored(dtype, expected), "sum over residual");
    }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CudaResidualTest,
                         testing::Combine(testing::Values(DType::f32, DType::bf16), testing::Values(1, 43),
                                          testing::Values(1, 17, 64, 1032)));

TEST(CudaSumOfSquaresTest, ManyTensorsInOneCallAsOnTheCpu) {
    const std::int64_t places = 150;
    std::vector<std::unique_ptr<DeviceTensor>> tensors;
    std::vector<GuardedBuffer<float>> on_cpu;
    std::vector<SumTerm> terms, cpu_terms;
    on_cpu.reserve(static_cast<std::size_t>(places));
    for (std::int64_t i = 0; i < places - 1; ++i) {  // lengths of all kinds, the last place is no term's
        const std::int64_t n = i == 7 ? 70001 : i == 8 ? 0 : i * i % 301 + 1;
        const Floats values = random_floats(n, static_cast<unsigned>(i), i % 3 == 0 ? 1e4f : 1.0f);
        tensors.push_back(std::make_unique<DeviceTensor>(DType::f32, Shape{n}, values));
        on_cpu.emplace_back(Shape{n}, values);
        // Every other view begins at an odd address.
        const std::int64_t skipped = n > 1 ? i % 2 : 0;
        const std::int64_t place = (i * 7) % (places - 1);
        terms.push_back({tensors.back()->view().rows(skipped, n - skipped), place});
        cpu_terms.push_back({on_cpu.back().view().rows(skipped, n - skipped), place});
    }
    GuardedBuffer<double> expected(Shape{places}, std::vector<double>(static_cast<std::size_t>(places), -1));
    cpu_ops().sum_of_squares(Runner(), expected.view(), cpu_terms);
    const auto run = [&] {
        const DeviceTensor sums(Shape{places}, std::vector<double>(static_cast<std::size_t>(places), -1));
        cuda::sum_of_squares(CudaRunner(cuda::sums_scratch_bytes), sums.view(), terms);
        return sums.elements<double>();
    };
    const std::vector<double> out = run();
    for (std::int64_t i = 0; i < places; ++i)
        EXPECT_NEAR(out[static_cast<std::size_t>(i)], expected[i], 1e-12 * std::abs(expected[i])) << i;
    for (const std::uint64_t seed : {1, 2}) {
        cuda_emulation::set_seed(seed);
        EXPECT_EQ(out, run());
    }
    cuda_emulation::set_seed(0);
}

TEST(CudaCountNonfiniteTest, CountsNanAndInfinity) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (const std::int64_t n : {1, 5, 16384, 70003}) {
        Floats values = random_floats(n, 1);
        values.front() = infinity;
        values[values.size() / 2] = -infinity;
        values.back() = std::numeric_limits<float>::quiet_NaN();
        const double expected = static_cast<double>(
            std::count_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); }));
        const DeviceTensor x(DType::f32, Shape{n}, values), count(DType::f64, Shape{1});
        const CudaRunner runner(cuda::sums_scratch_bytes);
        cuda::count_nonfinite(runner, count.view(), x.view(), Accumulate::overwrite);
        EXPECT_EQ(count.elements<double>()[0], expected);
        cuda::count_nonfinite(runner, count.view(), x.view(), Accumulate::add);
        EXPECT_EQ(count.elements<double>()[0], 2 * expected);
    }
}

TEST(CudaElementwiseEdgeTest, EmptyViewsAreNothingToDo) {
    const CudaRunner runner(cuda::sums_scratch_bytes);
    const DeviceTensor x(DType::f32, Shape{0}), y(DType::f32, Shape{0}), count(DType::f64, Shape{1});
    cuda::fill(runner, x.view(), 1.0f);
    cuda::copy(runner, x.view(), y.view());
    cuda::add(runner, x.view(), y.view());
    cuda::sum_parts(runner, x.view(), y.view());
    cuda::count_nonfinite(runner, count.view(), x.view(), Accumulate::overwrite);
    EXPECT_EQ(count.elements<double>()[0], 0.0);
}

}  // namespace
}  // namespace escalier::kernels::test
