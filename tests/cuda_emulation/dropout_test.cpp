// CUDA dropout against the CPU twin: the same mask, bit for bit.
#include "core/rng.h"
#include "cuda_fixture.h"
#include "kernels/common/cuda_twins.h"

namespace escalier::kernels::test {
namespace {

class CudaDropoutTest : public testing::TestWithParam<std::tuple<DType, std::int64_t>> {
 protected:
    static constexpr std::int64_t sequence = 5, rows = 3 * sequence;
    static constexpr std::uint64_t first_sample = (std::uint64_t{1} << 33) + 7;
    const DType dtype = std::get<0>(GetParam());
    const std::int64_t columns = std::get<1>(GetParam());
    const Shape matrix{rows, columns};
    const Floats x = stored(dtype, random_floats(rows*columns, 1)), bias = random_floats(columns, 2);

    Floats run(const TensorView& extra, float probability) const {
        const DeviceTensor out(dtype, matrix, x);
        const DeviceTensor sample(Shape{1}, std::vector<std::uint64_t>{first_sample});
        const DropoutKey key = {11, 22, sample.view().as<std::uint64_t>()};
        cuda::dropout(CudaRunner(), out.view(), extra, key, probability, sequence);
        return out.values();
    }
    Floats on_cpu(const Floats& shift, float probability) const {
        GuardedBuffer<float> out(matrix, x), own(Shape{columns}, shift.empty() ? Floats(bias.size()) : shift);
        const std::uint64_t sample = first_sample;
        cpu_ops().dropout(Runner(), out.view(), shift.empty() ? TensorView() : own.view(), {11, 22, &sample},
                          probability, sequence);
        return stored(dtype, out.values());
    }
};

TEST_P(CudaDropoutTest, HasTheBitsOfTheCpuTwin) {
    for (const float probability : {0.0f, 0.1f, 0.7f}) {
        expect_same_bits(run(TensorView(), probability), on_cpu({}, probability), "without a bias");
        const DeviceTensor floats(DType::f32, {columns}, bias), as_stored(dtype, {columns}, bias);
        for (const DeviceTensor* shift : {&floats, &as_stored})
            expect_same_bits(run(shift->view(), probability), on_cpu(shift->values(), probability),
                             "with a bias");
    }
}

TEST_P(CudaDropoutTest, SameBitsInAnyOrder) {
    expect_same_bits_in_any_order([&] { return run(TensorView(), 0.5f); });
}

INSTANTIATE_TEST_SUITE_P(Sizes, CudaDropoutTest,
                         testing::Combine(testing::Values(DType::f32, DType::bf16),
                                          testing::Values(1, 3, 17, 64, 300, 1032)),
                         [](const auto& info) {
                             return std::string(name_of(std::get<0>(info.param))) + "_" +
                                    std::to_string(std::get<1>(info.param));
                         });

TEST(CudaDropoutEdgeTest, RefusesAProbabilityOfOne) {
    const DeviceTensor x(DType::f32, Shape{1, 1});
    EXPECT_THROW(cuda::dropout(CudaRunner(), x.view(), TensorView(), {1, 2, nullptr}, 1.0f, 1),
                 InternalError);
}

}  // namespace
}  // namespace escalier::kernels::test
